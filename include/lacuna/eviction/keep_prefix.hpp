#pragma once
#include <lacuna/eviction/eviction_policy.hpp>

namespace lacuna {

/// The first `tokens` positions never leave: attention sinks, or a prompt's fixed beginning.
template <EvictionPolicy Policy>
struct keep_prefix {
  Policy policy = {};
  std::int32_t tokens = 16;

  static constexpr eviction_evidence evidence = Policy::evidence;

  LACUNA_HD float observe(float score, observed_weight const& w) const { return policy.observe(score, w); }
  LACUNA_HD float priority(cached_token const& t) const { return t.position < tokens ? infinity : policy.priority(t); }
  LACUNA_HD index_t kept_tokens() const { return tokens + policy.kept_tokens(); }
  LACUNA_HD constexpr bool shares_batch() const { return lacuna::shares_batch(policy); }
  void check(index_t capacity) const {
    require(tokens >= 0 && tokens < capacity, "keep_prefix has ", tokens, " tokens; expected at least 0 and fewer than the capacity ",
            capacity);
    policy.check(capacity);
  }
};

static_assert(EvictionPolicy<keep_prefix<detail::archetype_policy>>);

}  // namespace lacuna
