#pragma once
#include <lacuna/rope/rope_table.hpp>

#include <concepts>
#include <type_traits>

namespace lacuna {

/// Where a query and a key are taken to stand when their product is formed. Only the difference matters.
struct rope_positions {
  index_t query, key;
  friend bool operator==(rope_positions const&, rope_positions const&) = default;
};

/// Self-Extend: keys nearer than `near` keep their positions, farther ones share every `stretch` of them, so that no distance exceeds what
/// the model was trained for. [InfiniteHiP, dynamic extend]
struct extended_positions {
  index_t stretch, near;

  LACUNA_HD static constexpr extended_positions of(index_t longest, index_t trained, index_t near) {
    return {max<index_t>(1, ceil_div(longest, trained)), near};
  }
  LACUNA_HD constexpr bool is_near(index_t p, index_t t) const { return p - t < near; }
  LACUNA_HD constexpr index_t far_query(index_t p) const { return p / stretch + near - near / stretch; }
  LACUNA_HD constexpr index_t far_key(index_t t) const { return t / stretch; }
};

enum class scan_style {
  as_given,        // queries and keys are turned already
  relative,        // query at distance + 1; key at 0, the right half's probe at 1
  chunk_indexed,   // query behind the chunks, key at its chunk's number
  infllm,          // query at distance, every key at 0
  dynamic_extend,  // Self-Extend
};

/// How chunk_indexed numbers chunks.
enum class chunk_numbers {
  grid,  // from the sinks on, dropped chunks included
  rank,  // among the current candidates
};

/// The half that a probe stands for; single reads count as left.
enum class branch { left, right };

/// What a scanned key's position depends on.
struct scanned_key {
  index_t position = 0;
  index_t chunk = 0, chunks = 1;  // its number and how many there are, in the numbering of the style
  branch side = branch::left;
};

/// Position style of the scan: pruning stages compare queries and keys as if they stood there. A value, so that layers may differ.
/// [InfiniteHiP, section 4]
///
/// Bodies turn queries beforehand, once for every variant: a product depends on the difference of the positions alone, so relative and
/// infllm leave keys as they lie.
struct scan_rope {
  scan_style style = scan_style::as_given;
  rope_table table = {};
  std::int32_t distance = 1024;  // w': n_stream in the paper, the scan window in the reference implementation
  chunk_numbers numbers = chunk_numbers::grid;
  std::int32_t first_number = 1;  // of chunks; 1: the last chunk lies `distance` before the query, 0: one more
  std::int32_t trained = 8192;    // tokens, for dynamic_extend
  std::int32_t near = 1024;       // tokens, for dynamic_extend; 0: none keeps its position

  static constexpr int most_variants = 2;

  /// The definition. `p` is the query's true position, `longest` the last of the sequence.
  LACUNA_HD constexpr rope_positions positions(index_t p, scanned_key const& k, index_t longest) const {
    int const v = variant(p, k);
    if (style == scan_style::relative) return {index_t{distance} + 1, k.side == branch::right ? 1 : 0};
    return {query_turn(v, p, k.chunks, longest), key_turn(v, k, longest)};
  }

  LACUNA_HD constexpr bool turns() const { return style != scan_style::as_given; }
  LACUNA_HD constexpr bool turns_keys() const { return style == scan_style::chunk_indexed || style == scan_style::dynamic_extend; }
  /// Keys of one chunk have one position.
  LACUNA_HD constexpr bool one_position_a_chunk() const { return style != scan_style::dynamic_extend; }

  /// Turned copies of a query that a scan needs, and which of them meets this key.
  LACUNA_HD constexpr int variants() const { return style == scan_style::relative || style == scan_style::dynamic_extend ? 2 : 1; }
  LACUNA_HD constexpr int variant(index_t p, scanned_key const& k) const {
    if (style == scan_style::relative) return k.side == branch::right;
    if (style == scan_style::dynamic_extend) return p - k.position >= near;
    return 0;
  }

  LACUNA_HD constexpr index_t query_turn(int variant, index_t p, index_t chunks, index_t longest) const {
    switch (style) {
      case scan_style::relative:
        return index_t{distance} + 1 - variant;
      case scan_style::chunk_indexed:
        return min<index_t>(max<index_t>(p, 0), chunks + distance);
      case scan_style::infllm:
        return distance;
      case scan_style::dynamic_extend:
        return variant == 0 ? max<index_t>(p, 0) : extended(longest).far_query(max<index_t>(p, 0));
      default:
        return 0;
    }
  }

  LACUNA_HD constexpr index_t key_turn(int variant, scanned_key const& k, index_t longest) const {
    if (style == scan_style::chunk_indexed) return k.chunk + first_number;
    if (style == scan_style::dynamic_extend) return variant == 0 ? k.position : extended(longest).far_key(k.position);
    return 0;
  }

  /// Positions that a table must have for sequences of `keys` tokens in at most `chunks` chunks.
  constexpr index_t positions_needed(index_t keys, index_t chunks) const {
    switch (style) {
      case scan_style::relative:
        return index_t{distance} + 2;
      case scan_style::chunk_indexed:
        return chunks + max(distance, first_number) + 1;
      case scan_style::infllm:
        return index_t{distance} + 1;
      case scan_style::dynamic_extend:
        return keys + near;
      default:
        return 0;
    }
  }

  /// Throws invalid_argument unless the style can serve sequences of `keys` tokens in at most `chunks` chunks.
  void check(int key_dim, index_t keys, index_t chunks) const {
    if (!turns()) return;
    require(distance >= 1, "scan distance is ", distance, "; expected at least 1");
    require(first_number == 0 || first_number == 1, "first_number is ", first_number, "; expected 0 or 1");
    require(style != scan_style::dynamic_extend || trained >= 1, "trained is ", trained, "; expected at least 1 token");
    require(near >= 0, "near is ", near, "; expected at least 0");
    check_rope_table("scan rope", table, key_dim, positions_needed(keys, chunks));
  }

  friend bool operator==(scan_rope const&, scan_rope const&) = default;

 private:
  LACUNA_HD constexpr extended_positions extended(index_t longest) const { return extended_positions::of(longest, trained, near); }
};

/// A position style of scans.
template <class R>
concept ScanRope = std::is_trivially_copyable_v<R> && requires(R const r, scanned_key const& k, index_t p, int v) {
  { r.variants() } -> std::same_as<int>;
  { r.variant(p, k) } -> std::same_as<int>;
  { r.query_turn(v, p, p, p) } -> std::same_as<index_t>;
  { r.key_turn(v, k, p) } -> std::same_as<index_t>;
};

static_assert(ScanRope<scan_rope>);

}  // namespace lacuna
