#pragma once
#include <lacuna/core/sparse_index.hpp>
#include <lacuna/rope/scan_rope.hpp>

#include <concepts>
#include <type_traits>

namespace lacuna {

enum class attend_style {
  as_given,        // queries and keys are turned already
  absolute,        // at their true positions: prefill by other means and decode with InfiniteHiP share one cache
  streaming,       // listed keys stand one behind the other, the newest where the query stands
  infllm,          // listed keys before the window share the position of its first key
  dynamic_extend,  // Self-Extend
};

/// What the positions of a list depend on.
struct attended_list {
  index_t first = 0;    // position of the tile's first query
  index_t limit = 0;    // keys at or past it do not exist for the tile
  index_t keys = 0;     // of the list
  index_t longest = 0;  // last position of the sequence

  LACUNA_HD static constexpr attended_list of(index_row const& row, sequence const& s) {
    return {row.first, row.limit, row.span_keys(), s.keys - 1};
  }
};

/// Position style of attention over a cache of keys that are not turned: queries and keys turn as they are read. A value, so that layers
/// may differ. Lists have no columns, and end with the tile's own tokens. [InfiniteHiP, section 4]
struct attend_rope {
  attend_style style = attend_style::as_given;
  rope_table table = {};
  std::int32_t window = 1024;   // tokens before the tile that keep their positions under infllm
  std::int32_t trained = 8192;  // tokens, for dynamic_extend
  std::int32_t near = 1024;     // tokens, for dynamic_extend; 0: none keeps its position

  static constexpr int most_variants = 2;

  /// The definition, up to a shift that queries and keys share. `rank` counts the listed keys before this one.
  LACUNA_HD constexpr rope_positions positions(index_t p, index_t key, index_t rank, attended_list const& list) const {
    int const v = variant(p, key);
    return {query_turn(v, p, list), key_turn(v, key, rank, list)};
  }

  LACUNA_HD constexpr bool turns() const { return style != attend_style::as_given; }

  /// Turned copies of a query, and which of them meets this key.
  LACUNA_HD constexpr int variants() const { return style == attend_style::dynamic_extend ? 2 : 1; }
  LACUNA_HD constexpr int variant(index_t p, index_t key) const { return style == attend_style::dynamic_extend && p - key >= near; }

  LACUNA_HD constexpr index_t query_turn(int variant, index_t p, attended_list const& list) const {
    switch (style) {
      case attend_style::absolute:
        return max<index_t>(p, 0);
      case attend_style::streaming:
        return max<index_t>(list.keys - list.limit + p, 0);
      case attend_style::infllm:
        return max<index_t>(p - window_begin(list), 0);
      case attend_style::dynamic_extend:
        return variant == 0 ? max<index_t>(p, 0) : extended(list).far_query(max<index_t>(p, 0));
      default:
        return 0;
    }
  }

  LACUNA_HD constexpr index_t key_turn(int variant, index_t key, index_t rank, attended_list const& list) const {
    switch (style) {
      case attend_style::absolute:
        return key;
      case attend_style::streaming:
        return rank;
      case attend_style::infllm:
        return max<index_t>(key - window_begin(list), 0);
      case attend_style::dynamic_extend:
        return variant == 0 ? key : extended(list).far_key(key);
      default:
        return 0;
    }
  }

  /// Positions that a table must have for sequences of `keys` tokens, lists of `listed` keys and tiles of `rows` queries.
  constexpr index_t positions_needed(index_t keys, index_t listed, index_t rows) const {
    switch (style) {
      case attend_style::absolute:
        return keys;
      case attend_style::streaming:
        return min(listed, keys);
      case attend_style::infllm:
        return min<index_t>(keys, window + rows);
      case attend_style::dynamic_extend:
        return keys + near;
      default:
        return 0;
    }
  }

  /// Throws invalid_argument unless the style can serve these sizes.
  void check(int key_dim, index_t keys, index_t listed, index_t rows) const {
    if (!turns()) return;
    require(window >= 1, "rope window is ", window, "; expected at least 1");
    require(style != attend_style::dynamic_extend || trained >= 1, "trained is ", trained, "; expected at least 1 token");
    require(near >= 0, "near is ", near, "; expected at least 0");
    check_rope_table("attend rope", table, key_dim, positions_needed(keys, listed, rows));
  }

  friend bool operator==(attend_rope const&, attend_rope const&) = default;

 private:
  LACUNA_HD constexpr index_t window_begin(attended_list const& list) const { return max<index_t>(0, list.first - window); }
  LACUNA_HD constexpr extended_positions extended(attended_list const& list) const {
    return extended_positions::of(list.longest, trained, near);
  }
};

/// Queries and keys come turned, if they turn at all: no code for it in any body.
struct given_rope {
  LACUNA_HD constexpr bool turns() const { return false; }
  friend bool operator==(given_rope const&, given_rope const&) = default;
};

/// A position style of attention: given_rope, or one that turns as it reads.
template <class R>
concept AttendRope = std::is_trivially_copyable_v<R> &&
    (std::same_as<R, given_rope> || requires(R const r, attended_list const& list, index_t at, int v) {
      { r.turns() } -> std::same_as<bool>;
      { r.table } -> std::convertible_to<rope_table>;
      { r.variants() } -> std::same_as<int>;
      { r.variant(at, at) } -> std::same_as<int>;
      { r.query_turn(v, at, list) } -> std::same_as<index_t>;
      { r.key_turn(v, at, at, list) } -> std::same_as<index_t>;
    });

static_assert(AttendRope<given_rope> && AttendRope<attend_rope>);

}  // namespace lacuna
