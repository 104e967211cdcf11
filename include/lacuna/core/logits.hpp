#pragma once
#include <lacuna/core/math.hpp>

namespace lacuna {

/// What happens to q . k before the softmax: scaled, then optionally capped to soft_cap * tanh(x / soft_cap).
/// Precondition: every q . k and every logit is finite in float; a row that overflows it has no defined result.
struct logit_transform {
  float scale = 1;     // usually 1 / sqrt(key dim of the model, before any padding)
  float soft_cap = 0;  // 0: none

  LACUNA_HD float operator()(float dot) const {
    float const logit = dot * scale;
    return soft_cap > 0 ? soft_cap * std::tanh(logit / soft_cap) : logit;
  }
};

}  // namespace lacuna
