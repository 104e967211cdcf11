#pragma once
#include <lacuna/core/sparse_index.hpp>

#include <bit>

namespace lacuna {

/// (query, key) pairs of all query heads.
struct pair_count {
  index_t visited = 0;  // that attention over the index weighs
  index_t total = 0;    // that dense attention weighs

  /// 1 when there is nothing to visit.
  double share() const { return total ? static_cast<double>(visited) / static_cast<double>(total) : 1; }
};

namespace detail {

/// The query rows of one tile, for counting.
struct counted_tile {
  head_rule rule;
  index_t first, rows;  // positions first .. first + rows - 1
  bool causal;

  /// Keys of [begin, end) that the query at `position` sees.
  index_t seen(index_t position, index_t begin, index_t end) const {
    if (causal) end = min(end, position + 1);
    if (rule.window == head_rule::unlimited || position >= rule.dense_from) return max<index_t>(end - begin, 0);
    index_t const sinks = max<index_t>(min<index_t>(end, rule.sinks) - begin, 0);
    index_t const from = max<index_t>(begin, max<index_t>(rule.sinks, position - rule.window + 1));
    return sinks + max<index_t>(end - from, 0);
  }

  /// Pairs of the rows in `members` (bit t: row t; all ones: all rows) with [begin, end).
  index_t pairs(index_t begin, index_t end, std::uint64_t members) const {
    bool const everyone = members == ~std::uint64_t{0};
    if (!everyone && rows < 64) members &= (std::uint64_t{1} << rows) - 1;
    bool const all_seen = (!causal || end - 1 <= first) && rule.sees_all(first, first + rows - 1, begin, end);
    if (all_seen) return (everyone ? rows : std::popcount(members)) * (end - begin);
    index_t sum = 0;
    for (index_t r = 0; r < rows; ++r)
      if (everyone || (members >> r & 1)) sum += seen(first + r, begin, end);
    return sum;
  }
};

inline index_t pairs_of_row(index_row const& row, counted_tile const& tile) {
  index_t sum = 0;
  for (int e = 0; e < row.span_count(); ++e) {
    span const keys = row.span_at(e);
    if (keys.size() > 0) sum += tile.pairs(keys.begin, keys.end, row.members(e));
  }
  for (int c = 0; c < row.column_count; ++c)
    if (row.reads_column(c)) sum += tile.pairs(row.columns[c], row.columns[c] + 1, ~std::uint64_t{0});
  return sum;
}

/// Pairs of one head of a sequence under dense attention.
inline index_t dense_pairs(sequence const& s, bool causal) {
  if (!causal) return s.queries * s.keys;
  index_t const rows = min(s.queries, s.keys);  // earlier queries see nothing
  return rows * s.keys - rows * (rows - 1) / 2;
}

}  // namespace detail

/// Counts the pairs that an index in host memory makes attention weigh, element by element: causality, rules and memberships respected.
/// A span costs a few operations, not one per key.
inline pair_count visited_pairs(sparse_index const& index, attention_shape const& shape, sequence_lengths const& lengths = {}) {
  pair_count count;
  index_t const heads_of_list = shape.query_heads / index.heads;
  for (index_t b = 0; b < index.batch; ++b) {
    sequence const s = sequence_at(lengths, shape, b);
    count.total += shape.query_heads * detail::dense_pairs(s, index.causal);
    for (int h = 0; h < index.heads; ++h)
      for (index_t tile = 0; index.rows_of(s, tile) > 0; ++tile) {
        detail::counted_tile const rows{index.rules[index.head_at(b, h)], s.position(tile * index.tile_rows), index.rows_of(s, tile),
                                        index.causal};
        count.visited += heads_of_list * detail::pairs_of_row(index.row(s, b, h, tile), rows);
      }
  }
  return count;
}

}  // namespace lacuna
