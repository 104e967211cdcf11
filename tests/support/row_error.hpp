#pragma once
#include "support/attend_problem.hpp"

namespace test {

/// Largest error of a row relative to its norm. Error model of the tensor-core bodies: weights and outputs are rounded to 16 bits, so a
/// row may be off by 1e-2 of its norm.
inline double worst_row(attend_result const& got, attend_result const& right, int dim) {
  double worst = 0;
  for (std::size_t row = 0; row * dim < right.out.size(); ++row) {
    double error = 0, norm = 0;
    for (std::size_t i = row * dim; i < (row + 1) * dim; ++i) {
      if (std::isnan(right.out[i]) && std::isnan(got.out[i])) continue;  // a row that nobody may write
      error += (got.out[i] - right.out[i]) * (got.out[i] - right.out[i]), norm += right.out[i] * right.out[i];
    }
    double const relative = norm > 0 ? std::sqrt(error / norm) : error;
    if (!(relative <= worst)) worst = std::isnan(relative) ? lacuna::infinity : relative;
  }
  return worst;
}

}  // namespace test
