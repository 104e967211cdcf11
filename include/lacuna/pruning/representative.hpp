#pragma once
#include <lacuna/core/element.hpp>
#include <lacuna/core/math.hpp>
#include <lacuna/core/tensor_view.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace lacuna {

/// A chunk that a rule is asked about: tokens begin .. begin + tokens - 1, chunk `number` from the sinks on.
struct chunk_place {
  index_t b = 0;
  int kv_head = 0;
  index_t number = 0, begin = 0;
  int tokens = 0;  // fewer than the stage's chunk at the end of what is scanned
};

/// Tokens [first, last) of a chunk that may still hold its representative. One token is its own two halves.
struct token_range {
  std::int32_t first, last;
  LACUNA_HD constexpr std::int32_t middle() const { return first + (last - first) / 2; }
  LACUNA_HD constexpr token_range half(bool left) const {
    if (last - first <= 1) return *this;
    return left ? token_range{first, middle()} : token_range{middle(), last};
  }
};

namespace detail {
LACUNA_HD constexpr int halvings(int tokens) {
  int steps = 0;
  while ((1 << steps) < tokens) ++steps;
  return steps;
}
}  // namespace detail

/// SelectRep of the paper: the half whose first key scores better is halved again; the score of the token that is left counts. Equal
/// halves: the left one. Reads 2 log2(tokens) keys. [InfiniteHiP, algorithm 3]
struct halving {
  LACUNA_HD static constexpr int steps(int tokens) { return max(detail::halvings(tokens), 1); }
  LACUNA_HD static constexpr std::int32_t left(token_range r) { return r.first; }
  LACUNA_HD static constexpr std::int32_t right(token_range r) { return r.middle(); }
  LACUNA_HD static constexpr bool takes_left(float left, float right) { return !(right > left); }
  LACUNA_HD static constexpr float kept(float, float winner) { return winner; }
  LACUNA_HD static constexpr float finish(float score) { return score; }
  friend bool operator==(halving const&, halving const&) = default;
};

/// The same with the best score on the way instead of the last.
struct path_halving : halving {
  LACUNA_HD static constexpr float kept(float path, float winner) { return max(path, winner); }
  friend bool operator==(path_halving const&, path_halving const&) = default;
};

/// What the paper's public implementation does: middles of the halves are read, once more when a single token is left, equal halves go
/// right, the best score on the way counts, rounded to bf16.
struct midpoint_halving {
  LACUNA_HD static constexpr int steps(int tokens) { return detail::halvings(tokens) + 1; }
  LACUNA_HD static constexpr std::int32_t left(token_range r) { return (r.first + r.middle()) / 2; }
  LACUNA_HD static constexpr std::int32_t right(token_range r) { return (r.middle() + r.last) / 2; }
  LACUNA_HD static constexpr bool takes_left(float left, float right) { return left > right; }
  LACUNA_HD static constexpr float kept(float path, float winner) { return max(path, winner); }
  LACUNA_HD static constexpr float finish(float score) { return to_float(bfloat16{score}); }
  friend bool operator==(midpoint_halving const&, midpoint_halving const&) = default;
};

/// A rule that narrows a chunk down, two probes a step.
template <class R>
concept SearchRule = std::is_trivially_copyable_v<R> && requires(R const r, token_range range, float score) {
  { r.steps(1) } -> std::same_as<int>;
  { r.left(range) } -> std::same_as<std::int32_t>;
  { r.right(range) } -> std::same_as<std::int32_t>;
  { r.takes_left(score, score) } -> std::same_as<bool>;
  { r.kept(score, score) } -> std::same_as<float>;
  { r.finish(score) } -> std::same_as<float>;
};

/// Exact: every token of the chunk is read, the best counts. No dearer than halving up to 8 tokens, and contiguous.
struct every_token {
  LACUNA_HD static constexpr int reads(int tokens) { return tokens; }
  LACUNA_HD static constexpr std::int32_t offset(int i, chunk_place const&) { return i; }
  friend bool operator==(every_token const&, every_token const&) = default;
};

/// The best of `Count` evenly spaced tokens, the middles of as many equal parts.
template <int Count>
struct spaced_tokens {
  static_assert(Count >= 1, "at least one token is read");
  LACUNA_HD static constexpr int reads(int tokens) { return min(Count, tokens); }
  LACUNA_HD static constexpr std::int32_t offset(int i, chunk_place const& at) {
    int const count = reads(at.tokens);
    return (2 * i + 1) * at.tokens / (2 * count);
  }
  friend bool operator==(spaced_tokens const&, spaced_tokens const&) = default;
};

/// Representatives chosen elsewhere, whatever the query.
struct landmark {
  tensor_view<std::int32_t const, 3> offsets = {};  // [batch, KV head, chunk] in the chunk; memory that the bodies reach

  LACUNA_HD static constexpr int reads(int) { return 1; }
  LACUNA_HD std::int32_t offset(int, chunk_place const& at) const {
    return clamp<std::int32_t>(offsets(at.b, at.kv_head, at.number), 0, at.tokens - 1);
  }
};

/// A rule that reads tokens known beforehand; the best counts.
template <class R>
concept ReadRule = std::is_trivially_copyable_v<R> && requires(R const r, chunk_place const& at) {
  { r.reads(1) } -> std::same_as<int>;
  { r.offset(0, at) } -> std::same_as<std::int32_t>;
};

static_assert(SearchRule<halving> && SearchRule<path_halving> && SearchRule<midpoint_halving>);
static_assert(ReadRule<every_token> && ReadRule<spaced_tokens<4>> && ReadRule<landmark>);
static_assert(!SearchRule<every_token> && !ReadRule<halving>);

/// Score of a chunk of `tokens` by a search: probe(offset, left) is the product of the token with the queries.
template <class Rule, class Probe>
LACUNA_HD float search_chunk(Rule const& rule, int tokens, Probe const& probe) {
  token_range range{0, tokens};
  float path = -infinity;
  for (int step = rule.steps(tokens); step > 0; --step) {
    float const left = probe(rule.left(range), true), right = probe(rule.right(range), false);
    bool const goes_left = rule.takes_left(left, right);
    path = rule.kept(path, goes_left ? left : right);
    range = range.half(goes_left);
  }
  return rule.finish(path);
}

}  // namespace lacuna
