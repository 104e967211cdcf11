#pragma once
#include <lacuna/core/math.hpp>

namespace lacuna {

/// Running maximum and sum of exp(logit - max) of one row, in natural logarithm. Empty: max -inf, sum 0.
struct softmax_state {
  float max = -infinity;
  float sum = 0;

  /// Log of the sum of exponentials; -inf when nothing was seen.
  LACUNA_HD float lse() const { return sum > 0 ? max + std::log(sum) : -infinity; }

  /// Adds one logit; returns the factor by which everything accumulated before must be scaled.
  LACUNA_HD float absorb(float logit) {
    if (logit == -infinity) return 1;
    float const peak = lacuna::max(max, logit);
    float const keep = max == -infinity ? 0 : std::exp(max - peak);
    sum = sum * keep + std::exp(logit - peak);
    max = peak;
    return keep;
  }
};

/// What two partial results weigh in their union: out = a.weight * out_a + b.weight * out_b.
struct merge_weights {
  float a, b, lse;
};

/// Weights for merging two normalised partial outputs given their LSEs. Two empty ones give weights 0 and LSE -inf.
LACUNA_HD inline merge_weights merge_lse(float a, float b) {
  float const peak = max(a, b);
  if (peak == -infinity) return {0, 0, -infinity};
  float const ea = std::exp(a - peak), eb = std::exp(b - peak), sum = ea + eb;
  return {ea / sum, eb / sum, peak + std::log(sum)};
}

}  // namespace lacuna
