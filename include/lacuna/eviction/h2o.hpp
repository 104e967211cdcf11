#pragma once
#include <lacuna/eviction/eviction_policy.hpp>

#include <cmath>

namespace lacuna {

/// Heavy hitters stay: a token's score is the attention that it has had since it came. Alone it evicts almost only what came last (a new
/// token has had no time to earn a score) and drops sinks early: wrap it in recent_window and keep_prefix.
///
///   normalize      ranks by score over age, age counted to the next token's position
///   born_at_least  older tokens count as born at this position (the public code lets prefill tokens be born at the prefill's end)
///   decay          scores are multiplied by it before each addition
///   value_norm     weights are multiplied by the norm of the value row and scaled so that a row's still add up to the queries
///   batch_shared   rows of a batch rank by the sum of their scores and lose the same tokens; all rows must be of one length
struct h2o_options {
  bool normalize = false;
  std::int32_t born_at_least = 0;
  float decay = 1;
  bool batch_shared = false;
};

template <bool ValueNorm = false>
struct basic_h2o : h2o_options {
  static constexpr eviction_evidence evidence = {.weights = true, .value_norms = ValueNorm};

  constexpr basic_h2o(h2o_options options = {}) : h2o_options{options} {}

  LACUNA_HD float observe(float score, observed_weight const& w) const {
    float const seen = !ValueNorm ? w.weight : w.total > 0 ? static_cast<float>(w.queries) * w.weight * w.value_norm / w.total : 0;
    return score * decay + seen;
  }
  LACUNA_HD float priority(cached_token const& t) const {
    if (!normalize) return t.score;
    return t.score / static_cast<float>(max(1, t.next - max(t.position, born_at_least)));
  }
  LACUNA_HD index_t kept_tokens() const { return 0; }
  LACUNA_HD constexpr bool shares_batch() const { return batch_shared; }
  void check(index_t) const {
    require(decay > 0 && decay <= 1, "h2o's decay is ", decay, "; expected more than 0 and at most 1");
    require(born_at_least >= 0, "h2o's born_at_least is ", born_at_least, "; expected at least 0");
  }
};

using h2o = basic_h2o<false>;
using h2o_value_norm = basic_h2o<true>;

static_assert(EvictionPolicy<h2o> && EvictionPolicy<h2o_value_norm>);

}  // namespace lacuna
