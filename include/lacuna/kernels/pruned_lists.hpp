#pragma once
#include <lacuna/core/sparse_index.hpp>
#include <lacuna/exec/team.hpp>
#include <lacuna/pruning/scan_grid.hpp>

namespace lacuna {

/// Writes what the last stage kept as an index: sinks, kept chunks, the keys that lie between what was scanned and the window, the window.
/// The keys between exist where the tile reads the list of an earlier block, or of an earlier decode step: tokens that leave the window
/// stay attended. Own spans needed: kept.most + 1. Block: rows_per_block rows.
struct pruned_lists {
  attention_shape shape;
  sequence_lengths lengths;
  sparse_index index;  // tile_rows = kept.query_block, lists = kept.lists
  scan_grid grid;
  std::int32_t window;  // tokens before each tile that it attends to
  kept_chunks kept;

  static constexpr int rows_per_block = 128;

  LACUNA_HD index_t rows() const { return index_t{index.batch} * index.heads * index.tiles; }
  LACUNA_HD index_t blocks() const { return ceil_div<index_t>(rows(), rows_per_block); }
  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
    index_t const first = block * rows_per_block;
    for (index_t r = first + team.rank(); r < min<index_t>(first + rows_per_block, rows()); r += team.size()) {
      index_t const tile = r % index.tiles, b = r / index.tiles / index.heads;
      int const list = static_cast<int>(r / index.tiles % index.heads);
      sequence const s = sequence_at(lengths, shape, b);
      if (tile == 0) write_shared(s, index.head_at(b, list));
      index.row_count[r] = index.rows_of(s, tile) > 0 ? write(s, b, list, tile, index.own + index.own_at(r)) : 0;
      for (int e = 0; index.members && e < index.row_count[r]; ++e) index.members[index.own_at(r) + e] = ~std::uint64_t{0};
    }
  }

 private:
  LACUNA_HD void write_shared(sequence const& s, index_t head) const {
    index.prefix[head] = grid.sinks, index.rules[head] = head_rule{};
    index.column_count[head] = 0;
    for (int partial = 0; partial < 2; ++partial) {
      auto const rows = static_cast<std::int32_t>(partial ? s.queries % index.tile_rows : index.tile_rows);
      index.shared_count[head * 2 + partial] = 1;
      index.shared[index.shared_at(head, partial)] = {-window, index.causal ? rows : 0x7fffffff};
    }
  }

  /// Neighbouring chunks make one span. Nothing reaches into the window, which the head's shared span covers.
  LACUNA_HD std::int32_t write(sequence const& s, index_t b, int list, index_t tile, span* out) const {
    index_t const row = kept.row_at(b, list, grid.leader(s, tile, index.tile_rows));
    auto const stop = static_cast<std::int32_t>(max<index_t>(s.position(tile * index.tile_rows) - window, 0));
    std::int32_t count = 0;
    auto const append = [&](std::int32_t begin, std::int32_t end) {
      end = min(end, stop);
      if (begin >= end) return;
      if (count > 0 && out[count - 1].end == begin)
        out[count - 1].end = end;
      else
        out[count++] = {begin, end};
    };
    std::int32_t const end = kept.end[row];
    for (std::int32_t i = 0; i < kept.count[row]; ++i) {
      std::int32_t const begin = grid.sinks + kept.chunks_of(row)[i] * kept.chunk;
      append(begin, min(begin + kept.chunk, end));
    }
    append(max(end, grid.sinks), stop);
    return count;
  }
};

}  // namespace lacuna
