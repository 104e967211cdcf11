#pragma once
#include <lacuna/core/error.hpp>
#include <lacuna/core/math.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace lacuna {

/// What a policy is told of a slot when it ranks it.
struct cached_token {
  index_t b;              // batch entry
  int head;               // KV head
  std::int32_t position;  // of the token in the slot
  std::int32_t next;      // position of the first token that is still to come
  float score;            // what observe() left; 0 when the token came
};

/// What a call did to a slot: its summed weight over the call's queries (see weight_sums), and what a policy may set it against.
struct observed_weight {
  float weight;      // of the slot; with heads reduced by their mean, all slots of a row add up to `queries`
  float value_norm;  // Euclidean norm of the slot's value row; 0 unless the policy weighs values
  float total;       // of weight * value_norm over the row's slots; likewise
  index_t queries;   // of the call that saw at least one slot
};

/// Which evidence a policy wants. A mix of them costs what its parts cost.
struct eviction_evidence {
  bool weights = false;      // observe() is called after every call, with summed attention weights
  bool value_norms = false;  // observed_weight has norms and their total
};

/// What a slot is worth. A policy is a value with pure functions; decorators wrap one and change priority() only.
///
///   evidence          what observe() needs; nothing means that observe() is never called
///   observe(s, w)     the score after a call in which the slot had weight w, from the score s before it
///   priority(t)       the lowest leaves first, of equal ones the older token; +infinity never leaves
///   kept_tokens()     most tokens of a row whose priority is +infinity
///   check(capacity)   throws invalid_argument if an amount does not fit a cache of that many slots
/// [Learning how to Forget]
template <class P>
concept EvictionPolicy = std::is_trivially_copyable_v<P> && requires(P const p, cached_token t, observed_weight w, index_t capacity) {
  { P::evidence } -> std::convertible_to<eviction_evidence>;
  { p.observe(0.0f, w) } -> std::same_as<float>;
  { p.priority(t) } -> std::same_as<float>;
  { p.kept_tokens() } -> std::same_as<index_t>;
  p.check(capacity);
};

/// A policy that ranks all rows of a batch by the sum of their weights, so that they lose the same tokens, says so.
template <class P>
LACUNA_HD constexpr bool shares_batch(P const& p) {
  if constexpr (requires { p.shares_batch(); })
    return p.shares_batch();
  else
    return false;
}

namespace detail {

/// The least that a policy must be.
struct archetype_policy {
  static constexpr eviction_evidence evidence = {};
  LACUNA_HD float observe(float score, observed_weight const&) const { return score; }
  LACUNA_HD float priority(cached_token const&) const { return 0; }
  LACUNA_HD index_t kept_tokens() const { return 0; }
  void check(index_t) const {}
};
static_assert(EvictionPolicy<archetype_policy>);

}  // namespace detail

}  // namespace lacuna
