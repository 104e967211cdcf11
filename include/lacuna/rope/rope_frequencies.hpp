#pragma once
#include <lacuna/core/error.hpp>

#include <cmath>
#include <vector>

namespace lacuna {

/// Radians by which each pair of a head of `dim` dims turns from one position to the next: base^(-2 i / dim). [dim / 2]
inline std::vector<double> rope_frequencies(double base, int dim) {
  require(base > 1, "base is ", base, "; expected more than 1");
  require(dim >= 2 && dim % 2 == 0, "dim is ", dim, "; expected an even number of at least 2");
  std::vector<double> radians(static_cast<std::size_t>(dim / 2));
  for (int i = 0; i < dim / 2; ++i) radians[static_cast<std::size_t>(i)] = std::pow(base, -2.0 * i / dim);
  return radians;
}

/// The base that NTK-aware scaling takes for a text `stretch` times as long as the model was trained for: the slowest pair turns as far
/// as before over the whole text, the fastest as far as before per token.
inline double ntk_base(double base, double stretch, int dim) {
  require(stretch >= 1, "stretch is ", stretch, "; expected at least 1");
  require(dim > 2, "dim is ", dim, "; expected more than 2");
  return base * std::pow(stretch, static_cast<double>(dim) / (dim - 2));
}

/// YaRN: pairs that turn often within the trained length keep their frequency, those that turn less than once are slowed down by
/// `stretch`, a ramp lies between. Logits are to be multiplied by logit_factor.
struct yarn_scaling {
  double base, stretch;
  double trained_tokens;
  double fast_turns = 32, slow_turns = 1;  // beta: pairs of more turns are kept, of fewer slowed down

  std::vector<double> frequencies(int dim) const {
    require(stretch >= 1, "stretch is ", stretch, "; expected at least 1");
    require(trained_tokens >= 1, "trained_tokens is ", trained_tokens, "; expected at least 1");
    require(fast_turns > slow_turns && slow_turns > 0, "turns are ", fast_turns, " and ", slow_turns,
            "; expected a larger and a smaller one");
    std::vector<double> radians = rope_frequencies(base, dim);
    double const low = std::fmax(std::floor(pair_of(fast_turns, dim)), 0), high = std::fmin(std::ceil(pair_of(slow_turns, dim)), dim - 1);
    for (std::size_t i = 0; i < radians.size(); ++i) {
      double const ramp = std::fmin(std::fmax((static_cast<double>(i) - low) / std::fmax(high - low, 1e-3), 0), 1);
      radians[i] *= 1 - ramp + ramp / stretch;
    }
    return radians;
  }

  double logit_factor() const {
    double const each = stretch > 1 ? 0.1 * std::log(stretch) + 1 : 1;  // of queries and of keys
    return each * each;
  }

 private:
  /// The pair, as a real number, that makes so many turns over the trained length.
  double pair_of(double turns, int dim) const {
    constexpr double two_pi = 6.28318530717958647692;
    return dim * std::log(trained_tokens / (turns * two_pi)) / (2 * std::log(base));
  }
};

}  // namespace lacuna
