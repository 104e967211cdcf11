#pragma once
#include <lacuna/pattern/block_sparse.hpp>
#include <lacuna/pattern/per_head.hpp>
#include <lacuna/pattern/vertical_slash.hpp>

#include <limits>

namespace lacuna {

/// What choosing and attending cost one query head, in pairs: the work of one query with one key and one value. Work on entries of lists
/// or rows of scores is far lighter, half a pair a step. A pattern of the user's own joins by specialising this:
/// - `keys(p, limit, rows, total)`: keys that a tile of `rows` queries reads when, of `total`, [0, limit) exist for it.
/// - `choosing(p, queries, keys)`: pairs spent before attention starts.
template <class P>
struct pattern_cost;

template <StaticPattern P>
struct pattern_cost<P> {
  static double keys(P const& p, index_t limit, index_t rows, index_t total) {
    sequence const s{0, total, 0, total};
    static_list const l = p.list(rows, limit - rows, s, true);
    if (l.dense) return static_cast<double>(limit);
    index_t sum = min<index_t>(l.prefix, limit), from = sum;
    for (int e = 0; e < l.spans; ++e) {
      index_t const first = limit - rows, end = clamp<index_t>(first + l.relative[e].end, from, limit);
      sum += end - clamp<index_t>(first + l.relative[e].begin, from, end), from = end;
    }
    return static_cast<double>(sum);
  }
  static double choosing(P const&, index_t, index_t) { return 0; }
};

/// Distances beyond the nearest are widened to the tile and overlap: on a small real model they cover twice their number of keys.
template <>
struct pattern_cost<vertical_slash> {
  static double keys(vertical_slash const& p, index_t limit, index_t rows, index_t) {
    double const columns = max(p.verticals, p.first), nearest = max(p.nearest, 1);
    return min(static_cast<double>(limit), columns + nearest + static_cast<double>(rows) + 2 * max(p.slashes - nearest, 0.0));
  }
  /// Two passes of q . k over the last queries are whole pairs; then some ten steps a key, and a merge of columns and spans per tile.
  static double choosing(vertical_slash const& p, index_t queries, index_t keys) {
    double const tiles = static_cast<double>(ceil_div<index_t>(queries, p.tile)), n = static_cast<double>(keys);
    return n * static_cast<double>(min<index_t>(p.estimate_rows, queries)) + 5 * n +
           tiles * (min<double>(max(p.verticals, p.first), n) + min<double>(p.slashes, n / p.tile)) / 2;
  }
};

template <int Block>
struct pattern_cost<block_sparse_of<Block>> {
  static double keys(block_sparse_of<Block> const& p, index_t limit, index_t, index_t) {
    return static_cast<double>(min<index_t>(limit, index_t{p.keep_blocks} * Block));
  }
  /// Means of queries and keys, then q . k of every tile with every block before it and the selection's passes over them.
  static double choosing(block_sparse_of<Block> const&, index_t queries, index_t keys) {
    double const tiles = static_cast<double>(ceil_div<index_t>(queries, Block)),
                 blocks = static_cast<double>(ceil_div<index_t>(keys, Block));
    return static_cast<double>(queries + keys) / 2 + tiles * blocks * 4;
  }
};

namespace detail {

/// Cost of one head that prefills the last `queries` of `keys` tokens.
template <class P>
double cost_of(P const& p, index_t queries, index_t keys) {
  index_t const tile_rows = pattern_traits<P>::tile_rows(p);
  double sum = pattern_cost<P>::choosing(p, queries, keys);
  for (index_t first = 0; first < queries; first += tile_rows) {
    index_t const rows = min(tile_rows, queries - first);
    sum += static_cast<double>(rows) * pattern_cost<P>::keys(p, keys - queries + first + rows, rows, keys);
  }
  return sum;
}

template <class P>
double cost_of_heads(P const& p, index_t queries, index_t keys, int heads) {
  return heads * cost_of(p, queries, keys);
}

template <class... Kinds>
double cost_of_heads(per_head<Kinds...> const& p, index_t queries, index_t keys, int) {
  double sum = 0;
  for (auto const& head : p.heads) sum += std::visit([&](auto const& kind) { return cost_of(kind, queries, keys); }, head);
  return sum;
}

inline double dense_cost(index_t queries, index_t keys, int tile_rows, int heads) {
  double sum = 0;
  for (index_t first = 0; first < queries; first += tile_rows) {
    index_t const rows = min<index_t>(tile_rows, queries - first);
    sum += static_cast<double>(rows) * static_cast<double>(keys - queries + first + rows);
  }
  return heads * sum;
}

}  // namespace detail

/// Whether the pattern is estimated to be cheaper than dense causal attention at this shape: pairs read, tile by tile, and what choosing
/// them costs against the pairs that dense attention reads. No measurement: a pattern within a few per cent may go either way.
template <SparsePattern P>
bool pays_off(attention_shape const& shape, P const& p) {
  double const sparse = detail::cost_of_heads(p, shape.queries, shape.keys, shape.query_heads);
  return sparse < 0.98 * detail::dense_cost(shape.queries, shape.keys, pattern_traits<P>::tile_rows(p), shape.query_heads);
}

/// No length that break_even looks at pays off.
inline constexpr index_t never_breaks_even = std::numeric_limits<index_t>::max();

/// Keys from which on pays_off() holds, to a sixty-fourth of the answer, for prefills of all keys, or of shape.queries at a time where
/// that is less. The caller compares: below it, attend densely. Looks at lengths up to 2^22.
template <SparsePattern P>
index_t break_even(attention_shape const& shape, P const& p) {
  auto const pays = [&](index_t keys) {
    attention_shape at = shape;
    at.keys = keys, at.queries = shape.queries > 0 && shape.queries < shape.keys ? min(shape.queries, keys) : keys;
    return pays_off(at, p);
  };
  index_t high = 64;
  while (!pays(high))
    if ((high *= 2) > index_t{1} << 22) return never_breaks_even;
  index_t low = high / 2;  // does not pay, or is 32
  while (high - low > max<index_t>(1, high / 64)) {
    index_t const middle = low + (high - low) / 2;
    (pays(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace lacuna
