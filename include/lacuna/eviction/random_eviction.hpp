#pragma once
#include <lacuna/eviction/eviction_policy.hpp>

namespace lacuna {

/// A hash of (batch entry, KV head, position) decides: the baseline that a policy must beat.
struct random_eviction {
  std::uint32_t seed = 0;

  static constexpr eviction_evidence evidence = {};

  LACUNA_HD float observe(float score, observed_weight const&) const { return score; }
  LACUNA_HD float priority(cached_token const& t) const {
    std::uint32_t const where = mixed(mixed(mixed(seed) + static_cast<std::uint32_t>(t.b)) + static_cast<std::uint32_t>(t.head));
    return static_cast<float>(mixed(where ^ mixed(static_cast<std::uint32_t>(t.position))) >> 8);
  }
  LACUNA_HD index_t kept_tokens() const { return 0; }
  void check(index_t) const {}

 private:
  LACUNA_HD static constexpr std::uint32_t mixed(std::uint32_t x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
  }
};

static_assert(EvictionPolicy<random_eviction>);

}  // namespace lacuna
