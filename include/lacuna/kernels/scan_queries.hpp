#pragma once
#include <lacuna/core/element.hpp>
#include <lacuna/core/shape.hpp>
#include <lacuna/pruning/key_summary.hpp>
#include <lacuna/rope/rotate.hpp>
#include <lacuna/rope/scan_rope.hpp>

namespace lacuna {

/// The query block that a scan looks at.
struct scan_block {
  index_t b;
  index_t first;   // query of the sequence
  int rows, pool;  // queries that exist; as many neighbours are averaged
  index_t chunks;  // of the position style's numbering
  sequence s;

  LACUNA_HD constexpr int pooled_rows() const { return ceil_div(rows, pool); }
  /// True position of a pooled row: its newest query's.
  LACUNA_HD constexpr index_t position(int pooled) const { return s.position(first + min((pooled + 1) * pool, rows) - 1); }
  LACUNA_HD constexpr index_t longest() const { return s.keys - 1; }
};

/// Queries of one head, turned for each variant of the position style, averaged with their neighbours and expanded for the rule.
template <class Rule>
struct scan_queries {
  scan_rope rope;
  scan_block block;
  int key_dim;
  float* rows;  // [variants, pooled rows, planes, key dim]

  static constexpr int planes = summary_planes<Rule>;

  /// Room for a block of `query_block` queries.
  LACUNA_HD static constexpr index_t floats(int key_dim, int query_block) {
    return index_t{scan_rope::most_variants} * query_block * planes * key_dim;
  }

  LACUNA_HD float* row(int variant, int pooled) const {
    return rows + (index_t{variant} * block.pooled_rows() + pooled) * planes * key_dim;
  }

  /// Reads the head's queries. Members share the work pair by pair; rows are complete after the next sync().
  LACUNA_ANY_TEAM
  template <class Team, class Inputs>
  LACUNA_HD void prepare(Team& team, Inputs const& in, int head) const {
    int const pairs = rope.turns() ? rope.table.pairs() : 0, rest = key_dim - 2 * pairs, items = pairs + rest;
    for (int i = team.rank(); i < rope.variants() * block.pooled_rows() * items; i += team.size()) {
      int const item = i % items, pooled = i / items % block.pooled_rows(), variant = i / items / block.pooled_rows();
      int const begin = pooled * block.pool, end = min(begin + block.pool, block.rows);
      if (item < pairs)
        turn(in, head, variant, pooled, begin, end, item);
      else
        carry(in, head, variant, pooled, begin, end, 2 * pairs + item - pairs);
    }
  }

  /// Largest product of the rows with a key or summary.
  template <class T>
  LACUNA_HD float best(T const* key, scanned_key const& at) const {
    bool const turns = rope.turns_keys();
    index_t const turn_0 = turns ? rope.key_turn(0, at, block.longest()) : 0;
    index_t const turn_1 = turns && rope.variants() > 1 ? rope.key_turn(1, at, block.longest()) : 0;
    float most = -infinity;
    for (int r = 0; r < block.pooled_rows(); ++r) {
      int const v = rope.variant(block.position(r), at);
      index_t const turn = v == 0 ? turn_0 : turn_1;
      float const dot = turn ? rotated_dot(rope.table, turn, row(v, r), key, key_dim) : plain_dot(row(v, r), key, planes * key_dim);
      most = max(most, dot);
    }
    return most;
  }

 private:
  template <class Inputs>
  LACUNA_HD void turn(Inputs const& in, int head, int variant, int pooled, int begin, int end, int pair) const {
    rope_table const& t = rope.table;
    int const first = t.first_of(pair), second = t.second_of(pair);
    float x = 0, y = 0;
    for (int r = begin; r < end; ++r) {
      auto const* const q = in.q.row(block.b, block.s.first_query + block.first + r, head);
      index_t const at = rope.query_turn(variant, block.s.position(block.first + r), block.chunks, block.longest());
      float const a = to_float(q[first]), b = to_float(q[second]), c = t.cosines_at(at)[pair], s = t.sines_at(at)[pair];
      x += a * c - b * s, y += a * s + b * c;
    }
    put(variant, pooled, first, x / static_cast<float>(end - begin)), put(variant, pooled, second, y / static_cast<float>(end - begin));
  }

  template <class Inputs>
  LACUNA_HD void carry(Inputs const& in, int head, int variant, int pooled, int begin, int end, int d) const {
    float x = 0;
    for (int r = begin; r < end; ++r) x += to_float(in.q.row(block.b, block.s.first_query + block.first + r, head)[d]);
    put(variant, pooled, d, x / static_cast<float>(end - begin));
  }

  LACUNA_HD void put(int variant, int pooled, int d, float x) const {
    float* const to = row(variant, pooled);
    if constexpr (KeySummary<Rule>)
      for (int plane = 0; plane < planes; ++plane) to[plane * key_dim + d] = Rule::query(plane, x);
    else
      to[d] = x;
  }
};

}  // namespace lacuna
