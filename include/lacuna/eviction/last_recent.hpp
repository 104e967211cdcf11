#pragma once
#include <lacuna/eviction/eviction_policy.hpp>

namespace lacuna {

/// The oldest token leaves. Behind keep_prefix{s} token t >= capacity takes slot s + (t - capacity) mod (capacity - s), which is how
/// StreamingLLM and the paper's last-recent policy number them.
struct last_recent {
  static constexpr eviction_evidence evidence = {};

  LACUNA_HD float observe(float score, observed_weight const&) const { return score; }
  LACUNA_HD float priority(cached_token const&) const { return 0; }  // ties: the older token
  LACUNA_HD index_t kept_tokens() const { return 0; }
  void check(index_t) const {}
};

static_assert(EvictionPolicy<last_recent>);

}  // namespace lacuna
