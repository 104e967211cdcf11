#pragma once
#include <lacuna/core/sparse_index.hpp>

namespace lacuna {

/// Joins the lists of every two neighbouring tiles into one list with membership: bit 0 for the first tile's reader, bit 1 for the
/// second's. Makes lists of 64 rows readable by a kernel that shares each fetch among 128. The result's rows stand alone; it has twice
/// the tile rows and room for joined_capacity(). Block: team_size() rows of the result.
struct pair_lists {
  attention_shape shape;
  sequence_lengths lengths;
  sparse_index from, to;

  static constexpr int rows_per_block = 128;

  /// Most spans of a joined row: each entry of either list starts at most one span and ends at most one.
  LACUNA_HD static constexpr int joined_capacity(index_capacity const& c) { return 4 * (1 + c.spans + c.shared_spans); }

  LACUNA_HD index_t blocks() const { return ceil_div<index_t>(index_t{to.batch} * to.heads * to.tiles, rows_per_block); }
  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
    index_t const rows = index_t{to.batch} * to.heads * to.tiles, first = block * rows_per_block;
    for (index_t r = first + team.rank(); r < min<index_t>(first + rows_per_block, rows); r += team.size()) {
      index_t const tile = r % to.tiles, b = r / to.tiles / to.heads;
      int const head = static_cast<int>(r / to.tiles % to.heads);
      if (tile == 0) to.rules[to.head_at(b, head)] = from.rules[from.head_at(b, head)];
      join(sequence_at(lengths, shape, b), b, head, tile);
    }
  }

 private:
  /// A list on its way: the entry it is at and what is left of it.
  struct walk {
    index_row row;
    int entry = -1;
    span now{0, 0};

    LACUNA_HD bool done() const { return now.begin >= now.end; }
    LACUNA_HD void settle() {
      while (now.begin >= now.end && ++entry < row.span_count()) now = row.span_at(entry);
    }
    LACUNA_HD void pass(std::int32_t until) {
      if (now.begin < until) now.begin = until;
      settle();
    }
  };

  LACUNA_HD void join(sequence const& s, index_t b, int head, index_t tile) const {
    walk list[2];
    for (int h = 0; h < 2; ++h)
      if (tile * 2 + h < from.tiles) list[h].row = from.row(s, b, head, tile * 2 + h), list[h].settle();
    index_t const row = to.row_at(b, head, tile);
    std::int32_t count = 0;
    while (!list[0].done() || !list[1].done()) {
      std::int32_t const none = 0x7fffffff;
      std::int32_t const a = list[0].done() ? none : list[0].now.begin, c = list[1].done() ? none : list[1].now.begin;
      std::int32_t const begin = min(a, c);
      std::int32_t end = none;
      for (int h = 0; h < 2; ++h) {
        if (list[h].done()) continue;
        end = min(end, list[h].now.begin > begin ? list[h].now.begin : list[h].now.end);
      }
      std::uint64_t const members = (a == begin ? 1u : 0u) | (c == begin ? 2u : 0u);
      index_t const last = to.own_at(row) + count - 1;
      if (count > 0 && to.own[last].end == begin && to.members[last] == members)
        to.own[last].end = end;
      else
        to.own[last + 1] = {begin, end}, to.members[last + 1] = members, ++count;
      for (int h = 0; h < 2; ++h)
        if (!list[h].done()) list[h].pass(end);
    }
    to.row_count[row] = count | sparse_index::alone;
  }
};

}  // namespace lacuna
