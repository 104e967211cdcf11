#pragma once
#include <lacuna/core/sparse_index.hpp>
#include <lacuna/kernels/slash_estimate.hpp>
#include <lacuna/kernels/top_k.hpp>

#include <cstdint>

namespace lacuna {

/// Columns ranked by their sums, the first few forced.
struct ranked_columns {
  float const* sums;
  index_t count, first;

  LACUNA_HD index_t size() const { return count; }
  LACUNA_HD float score(index_t i) const { return sums[i]; }
  LACUNA_HD standing standing_of(index_t i) const { return i < first ? standing::forced : standing::ranked; }
};

/// Distances ranked by their sums, [forced_begin, forced_end) forced. Entry i is distance i + lowest.
struct ranked_distances {
  float const* sums;
  index_t count, lowest;
  index_t forced_begin, forced_end;  // distances
  bool causal;

  LACUNA_HD index_t size() const { return count; }
  LACUNA_HD float score(index_t i) const { return sums[i]; }
  LACUNA_HD standing standing_of(index_t i) const {
    index_t const distance = i + lowest;
    if (distance >= forced_begin && distance < forced_end) return standing::forced;
    return causal && distance < 0 ? standing::excluded : standing::ranked;
  }
};

/// The verticals and slashes of an estimate: `first` columns and `nearest` distances are forced and count even if the budget is smaller;
/// distance 0 is always there. Ties go to the lower column and the smaller distance. Amounts beyond the sequence take all of it.
/// [MInference, section 3]
template <class HeadSet>
struct estimated_slashes {
  HeadSet heads;
  slash_sums sums;
  bool causal;

  LACUNA_HD top_k<ranked_columns> columns(index_t list, int i, sequence const& s) const {
    auto const& p = heads.of(i);
    return {{sums.columns_of(list), s.queries > 0 ? s.keys : 0, p.first}, p.verticals};
  }

  /// Distance of the first entry of distances().
  LACUNA_HD index_t lowest(int i, sequence const& s) const { return 1 - slash_sums::rows(s, heads.of(i).estimate_rows); }

  LACUNA_HD top_k<ranked_distances> distances(index_t list, int i, sequence const& s) const {
    auto const& p = heads.of(i);
    index_t const below = lowest(i, s), nearest = max(p.nearest, 1);
    index_t const from = causal ? 0 : max(-(nearest - 1) / 2, below);  // as many before as behind, while there are any
    return {{sums.distances_of(list), s.queries > 0 ? s.keys - below : 0, below, from, from + nearest, causal}, p.slashes};
  }
};

/// Turns chosen columns and distances into the lists of an index. A distance D keeps, of every tile of rows [a, e), the keys
/// [a - D, e - D): what any row of the tile reads at D, all rows read. Overlapping and touching ranges become one span, relative to the
/// tile's first query and so the same for all full tiles; a partial last tile has shorter ranges, hence a list of its own.
/// Block b * heads.count + i is list heads.list[i] of sequence b.
template <class HeadSet, class Slashes>
struct slash_lists {
  attention_shape shape;
  sequence_lengths lengths;
  sparse_index index;
  HeadSet heads;
  Slashes slashes;
  std::int32_t* chosen;  // [batch, heads.count, most_chosen] distances
  index_t most_chosen;

  LACUNA_HD index_t blocks() const { return index_t{index.batch} * heads.count; }
  LACUNA_HD std::size_t scratch_bytes() const { return top_k<plain_scores>::scratch_bytes; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
    index_t const b = block / heads.count;
    int const i = static_cast<int>(block % heads.count), list = heads.list[i];
    sequence const s = sequence_at(lengths, shape, b);
    index_t const head = index.head_at(b, list);
    index_t const columns = slashes.columns(block, i, s)(team, team.scratch(), index.columns + head * index.capacity.columns);
    std::int32_t* const distances = chosen + block * most_chosen;
    index_t const count = slashes.distances(block, i, s)(team, team.scratch(), distances);
    for (int partial = team.rank(); partial < 2; partial += team.size()) {
      index_t const rows = partial ? s.queries % index.tile_rows : index.tile_rows;
      span* const out = index.shared + index.shared_at(head, partial);
      index.shared_count[head * 2 + partial] = rows ? merge(distances, count, slashes.lowest(i, s), rows, out) : 0;
      if (partial) continue;
      index.prefix[head] = 0, index.rules[head] = head_rule{}, index.column_count[head] = static_cast<std::int32_t>(columns);
    }
    for (index_t tile = team.rank(); tile < index.tiles; tile += team.size()) index.row_count[index.row_at(b, list, tile)] = 0;
  }

 private:
  /// Ascending keys are descending distances. Entry t stands for distance t + lowest.
  LACUNA_HD static int merge(std::int32_t const* entries, index_t count, index_t lowest, index_t rows, span* out) {
    int spans = 0;
    std::int32_t last = 0;
    for (index_t at = count - 1; at >= 0; --at) {
      auto const begin = static_cast<std::int32_t>(-(entries[at] + lowest)), end = static_cast<std::int32_t>(begin + rows);
      if (spans == 0 || begin > last) out[spans++] = {begin, end};
      last = out[spans - 1].end = end;
    }
    return spans;
  }
};

/// Says for every tile which columns it reads: those before its limit and in none of its spans. Block = 16 tiles of one list.
template <class HeadSet>
struct slash_column_bits {
  attention_shape shape;
  sequence_lengths lengths;
  sparse_index index;
  HeadSet heads;

  static constexpr int tiles = 16;

  LACUNA_HD index_t groups() const { return ceil_div<index_t>(index.tiles, tiles); }
  LACUNA_HD index_t blocks() const { return index.capacity.columns ? index.batch * heads.count * groups() : 0; }
  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
    index_t const b = block / groups() / heads.count, first = block % groups() * tiles;
    int const list = heads.list[block / groups() % heads.count], words = index.column_words();
    sequence const s = sequence_at(lengths, shape, b);
    index_t const count = min<index_t>(tiles, index.tiles - first) * words;
    for (index_t at = team.rank(); at < count; at += team.size()) {
      index_t const tile = first + at / words;
      int const word = static_cast<int>(at % words);
      index.column_bits[index.row_at(b, list, tile) * words + word] = bits(index.row(s, b, list, tile), word);
    }
  }

 private:
  LACUNA_HD static std::uint32_t bits(index_row const& row, int word) {
    int const begin = word * 32, end = min(begin + 32, row.column_count);
    std::uint32_t set = 0;
    if (begin >= end) return set;
    int at = first_ending_after(row, row.columns[begin] - row.first);
    for (int c = begin; c < end && row.columns[c] < row.limit; ++c) {
      index_t const key = row.columns[c] - row.first;
      while (at < row.shared_count && row.shared[at].end <= key) ++at;
      bool const covered = at < row.shared_count && row.shared[at].begin <= key;
      set |= std::uint32_t{!covered} << (c - begin);
    }
    return set;
  }

  LACUNA_HD static int first_ending_after(index_row const& row, index_t key) {
    int low = 0, high = row.shared_count;
    while (low < high) {
      int const middle = (low + high) / 2;
      if (row.shared[middle].end <= key)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
};

}  // namespace lacuna
