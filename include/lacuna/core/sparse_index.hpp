#pragma once
#include <lacuna/core/shape.hpp>

#include <cstddef>
#include <cstdint>

namespace lacuna {

/// Keys [begin, end), a run of neighbouring tokens.
struct span {
  std::int32_t begin, end;
  friend bool operator==(span const&, span const&) = default;
  LACUNA_HD constexpr std::int32_t size() const { return end > begin ? end - begin : 0; }
};

/// What a row may see inside the spans of its tile, as numbers, so that one kernel serves every element-exact pattern: key j is visible
/// to the query at position p iff j < sinks or p - j < window or p >= dense_from. Causality is the index's, not the rule's.
struct head_rule {
  static constexpr std::int32_t unlimited = 0x7fffffff;
  std::int32_t sinks = 0;
  std::int32_t window = unlimited;
  std::int32_t dense_from = unlimited;  // first query position that sees everything

  /// Positions and keys of 32 bits are compared in 32 bits, which kernels that mask every element want.
  template <class Position, class Key>
  LACUNA_HD constexpr bool visible(Position position, Key key) const {
    return window == unlimited || key < sinks || position - key < window || position >= dense_from;
  }

  /// True only if every query position in [first, last] sees every key in [begin, end).
  LACUNA_HD constexpr bool sees_all(index_t first, index_t last, index_t begin, index_t end) const {
    return window == unlimited || end <= sinks || last - begin < window || first >= dense_from;
  }
};

/// How many entries an index has room for, fixed when planning.
struct index_capacity {
  int spans = 0;         // of one row's own
  int shared_spans = 0;  // relative ones of a head
  int columns = 0;       // of a head
  bool members = false;  // rows carry membership masks
  int blocks = 0;        // of granularity keys that one row reads, prefix and shared spans too; 0: no bound is known

  friend bool operator==(index_capacity const&, index_capacity const&) = default;
};

/// The index of one row: an ascending list of disjoint key spans followed by a set of single keys outside them. A view.
struct index_row {
  span const* own = nullptr;
  std::uint64_t const* own_members = nullptr;
  span const* shared = nullptr;           // relative to `first`
  std::int32_t const* columns = nullptr;  // of the head, ascending
  std::uint32_t const* column_bits = nullptr;
  int own_count = 0, shared_count = 0, column_count = 0;
  std::int32_t prefix = 0;  // keys [0, prefix) come first; 0 when the row stands alone
  index_t first = 0;        // position of the tile's first query
  index_t limit = 0;        // keys at or past it do not exist for this tile

  /// Entries to walk: prefix, own, shared. Some may be empty after clipping.
  LACUNA_HD constexpr int span_count() const { return 1 + own_count + shared_count; }

  /// Entry i in [0, span_count()), clipped to the keys that exist. Never returns keys of an earlier entry again.
  LACUNA_HD constexpr span span_at(int i) const {
    if (i == 0) return clip(0, prefix);
    if (i <= own_count) return clip(own[i - 1].begin, own[i - 1].end);
    span const relative = shared[i - 1 - own_count];
    return clip(max<index_t>(first + relative.begin, prefix), first + relative.end);
  }

  /// Bit t set: token t of the tile reads entry i. Entries without masks are read by all.
  LACUNA_HD constexpr std::uint64_t members(int i) const {
    return own_members && i > 0 && i <= own_count ? own_members[i - 1] : ~std::uint64_t{0};
  }

  LACUNA_HD constexpr bool reads_column(int c) const { return column_bits[c >> 5] >> (c & 31) & 1; }

  /// Keys in all spans, masked or not. The decode kernels split by this number.
  LACUNA_HD constexpr index_t span_keys() const {
    index_t sum = 0;
    for (int i = 0; i < span_count(); ++i) sum += span_at(i).size();
    return sum;
  }

 private:
  LACUNA_HD constexpr span clip(index_t begin, index_t end) const {
    begin = clamp<index_t>(begin, 0, limit), end = clamp<index_t>(end, begin, limit);
    return {static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end)};
  }
};

/// Which keys each tile of queries reads: the only thing that attention reads about a pattern. A view of somebody's memory.
///
/// One row per (batch, list head, tile of `tile_rows` query tokens). A row is, in ascending key order,
///   1. the head's prefix [0, prefix), the sinks;
///   2. the row's own spans, absolute, multiples of `granularity` except where clipped;
///   3. the head's shared spans, relative to the tile's first query (windows and slashes are translation invariant, so they are stored
///      once per head; a partial last tile has a list of its own because fewer rows cover fewer keys);
///   4. the columns of the head (verticals) that the row's bitmask names: causally reachable, in none of the spans.
/// A row marked `alone` has only 2 and 4. Spans of one row never overlap. Lists are per layer, KV head or query head: heads is 1,
/// kv_heads or query_heads, and list_head() maps. Where tokens of a tile have lists of their own, the row holds their union and a
/// membership mask per own span (tile_rows <= 64). Single keys of one row are spans of length 1.
///
/// Readers: a tensor-core kernel walks span_at() and shares each fetch among tile_rows * group rows; a decode kernel cuts the entries
/// by cumulative length; a transpose for the backward pass sorts (entry, row) pairs, shared spans transposing to relative tile ranges.
struct sparse_index {
  static constexpr std::int32_t alone = std::int32_t{1} << 30;  // flag in row_count

  int batch = 0, heads = 0;
  index_t tiles = 0;  // per (batch, head): ceil(capacity queries / tile_rows)
  int tile_rows = 64;
  int granularity = 1;
  index_capacity capacity;
  bool causal = true;

  std::int32_t* row_count = nullptr;     // [batch, heads, tiles] own spans, plus `alone`
  index_t const* row_begin = nullptr;    // [batch, heads, tiles] start of the row's spans; null: row * capacity.spans
  span* own = nullptr;                   // [batch, heads, tiles, capacity.spans]
  std::uint64_t* members = nullptr;      // like own; null: all tokens of the tile
  std::int32_t* prefix = nullptr;        // [batch, heads]
  head_rule* rules = nullptr;            // [batch, heads]
  std::int32_t* shared_count = nullptr;  // [batch, heads, 2] for full tiles and for a partial last tile
  span* shared = nullptr;                // [batch, heads, 2, capacity.shared_spans]
  std::int32_t* column_count = nullptr;  // [batch, heads]
  std::int32_t* columns = nullptr;       // [batch, heads, capacity.columns]
  std::uint32_t* column_bits = nullptr;  // [batch, heads, tiles, column_words()]

  LACUNA_HD constexpr int column_words() const { return (capacity.columns + 31) / 32; }
  LACUNA_HD constexpr index_t head_at(index_t b, int h) const { return b * heads + h; }
  LACUNA_HD constexpr index_t row_at(index_t b, int h, index_t tile) const { return head_at(b, h) * tiles + tile; }
  LACUNA_HD constexpr index_t own_at(index_t row) const { return row_begin ? row_begin[row] : row * capacity.spans; }
  LACUNA_HD constexpr index_t shared_at(index_t head, bool partial) const { return (head * 2 + partial) * capacity.shared_spans; }

  /// Query tokens of the tile that exist in the sequence.
  LACUNA_HD constexpr index_t rows_of(sequence const& s, index_t tile) const {
    return clamp<index_t>(s.queries - tile * tile_rows, 0, tile_rows);
  }

  /// First key position past those that the tile's rows can see; 0 for a tile without rows.
  LACUNA_HD constexpr index_t limit_of(sequence const& s, index_t tile) const {
    index_t const rows = rows_of(s, tile);
    if (rows == 0) return 0;
    return causal ? clamp<index_t>(s.position(tile * tile_rows + rows), 0, s.keys) : s.keys;
  }

  LACUNA_HD constexpr index_row row(sequence const& s, index_t b, int h, index_t tile) const {
    index_t const head = head_at(b, h), at = row_at(b, h, tile);
    bool const partial = rows_of(s, tile) < tile_rows;
    index_row r;
    r.own_count = row_count[at] & ~alone;
    if (r.own_count > 0) {
      r.own = own + own_at(at);
      r.own_members = members ? members + own_at(at) : nullptr;
    }
    if ((row_count[at] & alone) == 0) {
      r.prefix = prefix[head];
      r.shared_count = capacity.shared_spans ? shared_count[head * 2 + partial] : 0;
      r.shared = shared + shared_at(head, partial);
    }
    if (capacity.columns) {
      r.column_count = column_count[head];
      r.columns = columns + head * capacity.columns;
      r.column_bits = column_bits + at * column_words();
    }
    r.first = s.position(tile * tile_rows);
    r.limit = limit_of(s, tile);
    return r;
  }
};

/// What fixes the memory of an index.
struct index_layout {
  int batch = 0, heads = 0;
  index_t queries = 0;  // capacity
  int tile_rows = 64;
  int granularity = 1;
  bool causal = true;
  index_capacity capacity = {};
};

namespace detail {

/// Carves aligned pieces from one block; with a null block it only counts.
class carver {
 public:
  constexpr explicit carver(std::byte* memory) : memory_{memory} {}
  template <class T>
  T* take(index_t count) {
    auto const at = offset_;
    offset_ = round_up<std::size_t>(offset_ + static_cast<std::size_t>(count) * sizeof(T), 256);
    return memory_ && count ? reinterpret_cast<T*>(memory_ + at) : nullptr;
  }
  std::size_t bytes() const { return offset_; }

 private:
  std::byte* memory_;
  std::size_t offset_ = 0;
};

inline sparse_index lay_out(index_layout const& l, carver& block) {
  sparse_index x;
  x.batch = l.batch, x.heads = l.heads, x.tile_rows = l.tile_rows, x.granularity = l.granularity;
  x.tiles = ceil_div<index_t>(l.queries, l.tile_rows);
  x.capacity = l.capacity, x.causal = l.causal;
  index_t const lists = index_t{l.batch} * l.heads, rows = lists * x.tiles;
  x.row_count = block.take<std::int32_t>(rows);
  x.own = block.take<span>(rows * l.capacity.spans);
  if (l.capacity.members) x.members = block.take<std::uint64_t>(rows * l.capacity.spans);
  x.prefix = block.take<std::int32_t>(lists);
  x.rules = block.take<head_rule>(lists);
  x.shared_count = block.take<std::int32_t>(lists * 2);
  x.shared = block.take<span>(lists * 2 * l.capacity.shared_spans);
  x.column_count = block.take<std::int32_t>(lists);
  x.columns = block.take<std::int32_t>(lists * l.capacity.columns);
  x.column_bits = block.take<std::uint32_t>(rows * x.column_words());
  return x;
}

}  // namespace detail

/// About the bytes that index_bytes() counts, for layouts whose number does not fit one.
inline double estimated_index_bytes(index_layout const& l) {
  double const lists = static_cast<double>(l.batch) * l.heads,
               rows = lists * static_cast<double>(ceil_div<index_t>(l.queries, l.tile_rows));
  double const entry = sizeof(span) + (l.capacity.members ? sizeof(std::uint64_t) : 0);
  return rows * (4 + entry * l.capacity.spans + l.capacity.columns / 8.0) +
         lists * (16.0 * l.capacity.shared_spans + 4.0 * l.capacity.columns + 32);
}

/// Bytes of memory that an index of this layout needs. Linear in the queries.
inline std::size_t index_bytes(index_layout const& layout) {
  detail::carver count{nullptr};
  detail::lay_out(layout, count);
  return count.bytes();
}

/// An index over caller's memory of index_bytes(layout), aligned to 256 bytes. Contents are whatever the memory holds: a build fills it.
inline sparse_index make_index(index_layout const& layout, std::byte* memory) {
  detail::carver block{memory};
  return detail::lay_out(layout, block);
}

}  // namespace lacuna
