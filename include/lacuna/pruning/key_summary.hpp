#pragma once
#include <lacuna/core/math.hpp>
#include <lacuna/core/tensor_view.hpp>

#include <concepts>
#include <type_traits>

namespace lacuna {

/// Quest: no key of the chunk scores more than sum over d of max(q_d min_d, q_d max_d), which is q+ . max + q- . min.
struct min_max_bound {
  static constexpr int planes = 2;
  static constexpr bool linear = false;
  LACUNA_HD static constexpr float start(int plane) { return plane == 0 ? -infinity : infinity; }
  LACUNA_HD static constexpr float add(int plane, float sum, float x) { return plane == 0 ? max(sum, x) : min(sum, x); }
  LACUNA_HD static constexpr float finish(float sum, int) { return sum; }
  LACUNA_HD static constexpr float query(int plane, float q) { return plane == 0 ? max(q, 0.0f) : min(q, 0.0f); }
  friend bool operator==(min_max_bound const&, min_max_bound const&) = default;
};

/// MoBA: q . mean of the chunk's keys.
struct key_mean {
  static constexpr int planes = 1;
  static constexpr bool linear = true;
  LACUNA_HD static constexpr float start(int) { return 0; }
  LACUNA_HD static constexpr float add(int, float sum, float x) { return sum + x; }
  LACUNA_HD static constexpr float finish(float sum, int tokens) { return sum / static_cast<float>(tokens); }
  LACUNA_HD static constexpr float query(int, float q) { return q; }
  friend bool operator==(key_mean const&, key_mean const&) = default;
};

/// A rule that reads a summary of each chunk instead of its keys: [planes, key dim] numbers whose product with the query, expanded
/// likewise, is the score. `linear`: a summary of turned keys is the turned summary, so styles that turn keys may be used.
template <class R>
concept KeySummary = std::is_trivially_copyable_v<R> && requires(float x) {
  { R::planes } -> std::convertible_to<int>;
  { R::linear } -> std::convertible_to<bool>;
  { R::start(0) } -> std::same_as<float>;
  { R::add(0, x, x) } -> std::same_as<float>;
  { R::finish(x, 1) } -> std::same_as<float>;
  { R::query(0, x) } -> std::same_as<float>;
};

/// Planes of what a rule reads of a chunk or key: 1 for keys themselves.
template <class Rule>
inline constexpr int summary_planes = 1;
template <KeySummary Rule>
inline constexpr int summary_planes<Rule> = Rule::planes;

/// Scores that come from elsewhere (an indexer), larger is better.
struct given_scores {
  tensor_view<float const, 4> scores = {};  // [batch, list, query block, chunk], chunks counted from the sinks on

  LACUNA_HD float score(index_t b, int list, index_t block, index_t chunk) const { return scores(b, list, block, chunk); }
};

template <class R>
concept ScoreRule = std::is_trivially_copyable_v<R> && requires(R const r, index_t at) {
  { r.score(at, 0, at, at) } -> std::same_as<float>;
};

static_assert(KeySummary<min_max_bound> && KeySummary<key_mean> && ScoreRule<given_scores>);

}  // namespace lacuna
