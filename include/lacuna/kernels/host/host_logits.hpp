#pragma once
#include <lacuna/core/logits.hpp>
#include <lacuna/kernels/host/simd.hpp>

namespace lacuna {

/// How raw dot products become logits: the cap applies first where there is one, then a logit is `unit` times the number. Queries are
/// multiplied by `query` when they are packed, which makes `unit` positive and keeps it far from the ends of the number range.
struct host_logits {
  float query = 1, unit = 1, cap = 0, cap_scale = 0;

  explicit host_logits(logit_transform const& t) {
    float const size = t.scale < 0 ? -t.scale : t.scale;
    if (t.soft_cap > 0)
      cap = t.soft_cap, cap_scale = t.scale;
    else if (size > 0x1p-60f && size < 0x1p60f)
      unit = size, query = t.scale < 0 ? -1.0f : 1.0f;
    else
      query = t.scale;
  }

  float factor() const { return unit * simd::log2e; }
};

}  // namespace lacuna
