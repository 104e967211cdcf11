#pragma once
#include <lacuna/core/sparse_index.hpp>
#include <lacuna/exec/team.hpp>

namespace lacuna {

/// The list of a head whose pattern does not look at the data.
struct static_list {
  static constexpr int most = 2;
  std::int32_t prefix = 0;
  head_rule rule;
  int spans = 0;
  span relative[most] = {};  // to the tile's first query, ascending
  bool dense = false;        // the tile reads every key that causality allows, whatever the spans say
};

/// Fills the lists of static patterns. Block b * heads.count + i is list heads.list[i] of sequence b. A policy states
/// list(rows, first, s, causal): the list of a tile of `rows` query tokens whose first stands at position `first`.
template <class HeadSet>
struct static_lists {
  attention_shape shape;
  sequence_lengths lengths;
  sparse_index index;
  HeadSet heads;

  LACUNA_HD index_t blocks() const { return index_t{index.batch} * heads.count; }
  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
    index_t const b = block / heads.count;
    int const i = static_cast<int>(block % heads.count), list = heads.list[i];
    auto const& policy = heads.of(i);
    sequence const s = sequence_at(lengths, shape, b);
    index_t const head = index.head_at(b, list);
    for (int partial = team.rank(); partial < 2; partial += team.size()) {
      index_t const rows = partial ? s.queries % index.tile_rows : index.tile_rows;
      static_list const l = policy.list(rows, s.position(partial ? s.queries - rows : 0), s, index.causal);
      index.shared_count[head * 2 + partial] = l.spans;
      for (int e = 0; e < l.spans; ++e) index.shared[index.shared_at(head, partial) + e] = l.relative[e];
      if (partial == 0) index.prefix[head] = l.prefix, index.rules[head] = l.rule;
      if (partial == 0 && index.capacity.columns) index.column_count[head] = 0;
    }
    for (index_t tile = team.rank(); tile < index.tiles; tile += team.size()) {
      bool const dense = policy.list(index.rows_of(s, tile), s.position(tile * index.tile_rows), s, index.causal).dense;
      index_t const row = index.row_at(b, list, tile);
      index.row_count[row] = dense ? 1 | sparse_index::alone : 0;
      if (!dense) continue;
      index.own[index.own_at(row)] = {0, 0x7fffffff};
      if (index.members) index.members[index.own_at(row)] = ~std::uint64_t{0};
    }
  }
};

}  // namespace lacuna
