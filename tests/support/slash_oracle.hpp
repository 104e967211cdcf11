#pragma once
#include <lacuna/pattern/vertical_slash.hpp>

#include <cmath>
#include <set>
#include <utility>

#include "support/pattern_problem.hpp"

namespace test {

/// Attention mass of the last queries by column and by distance, in double.
struct slash_mass {
  std::vector<double> columns;    // [keys]
  std::vector<double> distances;  // [keys + rows - 1], entry distance + rows - 1
  index_t rows = 0;
};

inline slash_mass mass_of(pattern_problem const& p, index_t b, int head, int estimate_rows) {
  auto const s = p.sequence(b);
  slash_mass m;
  m.rows = std::min<index_t>({estimate_rows, s.queries, s.keys});
  m.columns.resize(s.keys), m.distances.resize(m.rows ? s.keys + m.rows - 1 : 0);
  for (index_t r = 0; r < m.rows; ++r) {
    index_t const query = s.queries - m.rows + r, position = s.position(query), end = p.causal ? position + 1 : s.keys;
    std::vector<double> weight(end);
    double peak = -INFINITY, sum = 0;
    for (index_t j = 0; j < end; ++j) weight[j] = p.logit(b, query, head, j), peak = std::max(peak, weight[j]);
    for (auto& w : weight) sum += w = std::exp(w - peak);
    for (index_t j = 0; j < end; ++j) m.columns[j] += weight[j] / sum, m.distances[position - j + m.rows - 1] += weight[j] / sum;
  }
  return m;
}

/// What a list keeps, and how clear the choice was: the least relative gap between a kept and a dropped sum.
struct slash_choice {
  std::set<index_t> columns, distances;
  double gap = 1;
};

inline void take_best(std::vector<std::pair<double, index_t>> ranked, index_t room, std::set<index_t>& kept, double& gap) {
  std::stable_sort(ranked.begin(), ranked.end(), [](auto const& x, auto const& y) { return x.first > y.first; });
  for (index_t i = 0; i < static_cast<index_t>(ranked.size()) && i < room; ++i) kept.insert(ranked[i].second);
  if (room <= 0 || room >= static_cast<index_t>(ranked.size())) return;
  gap = std::min(gap, (ranked[room - 1].first - ranked[room].first) / ranked[room - 1].first);
}

inline slash_choice choice_of(pattern_problem const& p, index_t b, int head, lacuna::vertical_slash const& amounts) {
  auto const m = mass_of(p, b, head, amounts.estimate_rows);
  slash_choice c;
  if (m.rows == 0) return c;
  index_t const keys = static_cast<index_t>(m.columns.size());
  std::vector<std::pair<double, index_t>> ranked;
  for (index_t j = 0; j < keys; ++j)
    if (j < amounts.first)
      c.columns.insert(j);
    else
      ranked.emplace_back(m.columns[j], j);
  take_best(ranked, amounts.verticals - static_cast<index_t>(c.columns.size()), c.columns, c.gap);

  // The nearest distances: 0, 1, -1, 2, -2, ... as far as they exist.
  std::vector<index_t> nearest;
  index_t const lowest = p.causal ? 0 : 1 - m.rows;
  for (index_t d = 0; d < keys + m.rows + amounts.nearest; ++d) {
    nearest.push_back(d);
    if (d > 0 && -d >= lowest) nearest.push_back(-d);
  }
  nearest.resize(std::max(amounts.nearest, 1));
  ranked.clear();
  for (index_t d = lowest; d < keys; ++d)
    if (std::find(nearest.begin(), nearest.end(), d) != nearest.end())
      c.distances.insert(d);
    else
      ranked.emplace_back(m.distances[d + m.rows - 1], d);
  take_best(ranked, amounts.slashes - static_cast<index_t>(c.distances.size()), c.distances, c.gap);
  return c;
}

/// The definition: a tile's rows read every chosen column, and key (row - distance) for every row of the tile and every chosen distance.
inline std::vector<std::int32_t> keys_by_definition(lacuna::sequence const& s, bool causal, index_t tile, int tile_rows,
                                                    slash_choice const& c) {
  index_t const begin = std::min(tile * tile_rows, s.queries), end = std::min(begin + tile_rows, s.queries);
  std::set<std::int32_t> keys;
  if (begin == end) return {};
  index_t const limit = causal ? s.position(end) : s.keys;
  for (index_t const j : c.columns)
    if (j < limit) keys.insert(static_cast<std::int32_t>(j));
  for (index_t i = begin; i < end; ++i)
    for (index_t const d : c.distances)
      if (index_t const j = s.position(i) - d; j >= 0 && j < limit) keys.insert(static_cast<std::int32_t>(j));
  return {keys.begin(), keys.end()};
}

/// Lists whose choice is too close to call in fp32 are passed over.
inline verdict against_definition(lacuna::sparse_index const& index, pattern_problem const& p, lacuna::vertical_slash const& amounts) {
  verdict v;
  for (index_t b = 0; b < p.shape.batch; ++b)
    for (int h = 0; h < p.shape.query_heads; ++h) {
      auto const choice = choice_of(p, b, h, amounts);
      ++v.seen;
      if (choice.gap < 3e-5) continue;
      ++v.compared;
      for (index_t tile = 0; tile < index.tiles; ++tile) {
        auto const read = keys_of(index, p.sequence(b), b, h, tile);
        v.equal &= read.sound && read.keys == keys_by_definition(p.sequence(b), p.causal, tile, amounts.tile, choice);
      }
    }
  return v;
}

template <class Exec>
verdict against_definition(Exec const& exec, pattern_problem const& p, lacuna::vertical_slash const& amounts) {
  return against_definition(build_index(exec, amounts, p).index, p, amounts);
}

/// Amounts and tiles of all sizes.
inline lacuna::vertical_slash random_amounts(std::mt19937& engine) {
  constexpr int tiles[] = {1, 7, 16, 64, 100}, rows[] = {1, 5, 64, 128}, first[] = {0, 3, 30}, nearest[] = {0, 1, 10, 100};
  return {.verticals = static_cast<int>(engine() % 60),
          .slashes = static_cast<int>(engine() % 80),
          .first = first[engine() % 3],
          .nearest = nearest[engine() % 4],
          .estimate_rows = rows[engine() % 4],
          .tile = tiles[engine() % 5]};
}

}  // namespace test
