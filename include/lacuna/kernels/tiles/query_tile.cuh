#pragma once
#include <lacuna/kernels/attend_args.hpp>

namespace lacuna::tiles {

/// Query rows that one block attends for: `count` tokens x the group of heads that share a list and a KV head, head fastest.
struct query_tile {
  index_t b, first;       // first query token
  int head;               // first query head
  int count;              // query tokens; 0 where a sequence ends before its capacity
  std::int32_t position;  // of the first token
  int first_member;       // tokens of the list's tile before the first one
  sequence s;
};

/// Some neighbouring rows of a query tile: where they stand, and which members of the list they are.
struct row_range {
  std::int32_t first, last;  // positions; no rows if last < first
  std::uint64_t members;
};

/// How the query rows of a call are cut into tiles of at most `tokens` tokens; none crosses a tile of the index.
struct query_tiling {
  int group = 1;
  int tokens = 0;

  template <class Args>
  LACUNA_HD index_t parts(Args const& a) const {
    return ceil_div<index_t>(min<index_t>(a.index.tile_rows, a.shape.queries), tokens);
  }
  template <class Args>
  LACUNA_HD index_t tiles_per_head(Args const& a) const {
    return parts(a) * ceil_div<index_t>(a.shape.queries, a.index.tile_rows);
  }
  template <class Args>
  LACUNA_HD index_t tiles(Args const& a) const {
    return a.shape.batch * (a.shape.query_heads / group) * tiles_per_head(a);
  }

  /// Heads come one after the other, so that few heads' keys are in the L2 cache at a time; within one the last tiles, which under
  /// causality have the longest lists, come first.
  template <class Args>
  LACUNA_HD query_tile at(Args const& a, index_t number) const {
    query_tile t;
    index_t const per_head = tiles_per_head(a), heads = a.shape.query_heads / group;
    index_t const from_end = per_head - 1 - number % per_head, h = number / per_head;
    index_t const list_tile = from_end / parts(a), part = from_end % parts(a);
    t.head = static_cast<int>(h % heads) * group, t.b = h / heads;
    t.s = sequence_at(a.lengths, a.shape, t.b);
    t.first = list_tile * a.index.tile_rows + part * tokens;
    index_t const end = min(min((list_tile + 1) * a.index.tile_rows, t.s.queries), t.first + tokens);
    t.count = static_cast<int>(max<index_t>(end - t.first, 0));
    t.position = static_cast<std::int32_t>(t.s.position(t.first));
    t.first_member = static_cast<int>(part * tokens);
    return t;
  }

  /// Rows [first_row, first_row + rows) of a tile.
  LACUNA_HD row_range rows_of(query_tile const& t, int first_row, int rows) const {
    int const last_row = min(first_row + rows, t.count * group) - 1;
    if (last_row < first_row) return {0, -1, 0};
    int const first = first_row / group, last = last_row / group, low = t.first_member + first;
    std::uint64_t const members = last - first >= 63 ? ~std::uint64_t{0} : ((std::uint64_t{2} << (last - first)) - 1) << (low & 63);
    return {t.position + first, t.position + last, members};
  }

  /// First key position past those that a tile's rows can see.
  template <class Args>
  LACUNA_HD static std::int32_t limit_of(Args const& a, query_tile const& t) {
    std::int32_t const keys = static_cast<std::int32_t>(t.s.keys);
    return a.index.causal ? clamp<std::int32_t>(t.position + t.count, 0, keys) : keys;
  }
};

}  // namespace lacuna::tiles
