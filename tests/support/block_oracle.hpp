#pragma once
#include <lacuna/pattern/block_sparse.hpp>

#include <set>
#include <utility>

#include "support/pattern_problem.hpp"

namespace test {

struct expected_blocks {
  std::set<index_t> kept;
  double gap = 1;  // least difference between a kept and a dropped logit
};

/// The definition in double: means, scaled product, the tile's own blocks first, then the best.
template <int Block>
expected_blocks blocks_by_definition(pattern_problem const& p, index_t b, int head, index_t tile, index_t keep) {
  auto const in = p.inputs();
  auto const s = p.sequence(b);
  index_t const first = tile * Block, rows = std::clamp<index_t>(s.queries - first, 0, Block);
  expected_blocks e;
  if (rows == 0) return e;
  index_t const begin = s.position(first), last = s.position(first + rows) - 1;
  std::vector<std::pair<double, index_t>> ranked;
  for (index_t c = 0; c * Block < s.keys; ++c) {
    if (p.causal && c * Block > last) continue;
    if (c * Block <= last && (c + 1) * Block > begin) {
      e.kept.insert(c);
      continue;
    }
    index_t const end = std::min<index_t>((c + 1) * Block, s.keys);
    double dot = 0;
    for (int d = 0; d < p.shape.key_dim; ++d) {
      double q = 0, k = 0;
      for (index_t r = 0; r < rows; ++r) q += in.q.row(b, s.first_query + first + r, head)[d];
      for (index_t j = c * Block; j < end; ++j) k += in.kv.key(s, b, p.shape.kv_head(head), j)[d];
      dot += q / double(rows) * (k / double(end - c * Block));
    }
    ranked.emplace_back(dot * p.logits.scale, c);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](auto const& x, auto const& y) { return x.first > y.first; });
  index_t const room = keep - static_cast<index_t>(e.kept.size());
  for (index_t i = 0; i < room && i < static_cast<index_t>(ranked.size()); ++i) e.kept.insert(ranked[i].second);
  if (room > 0 && room < static_cast<index_t>(ranked.size())) e.gap = ranked[room - 1].first - ranked[room].first;
  return e;
}

/// Tiles whose choice is too close to call in fp32 are passed over.
template <int Block>
verdict against_definition(lacuna::sparse_index const& index, pattern_problem const& p, lacuna::block_sparse_of<Block> const& amounts) {
  verdict v;
  for (index_t b = 0; b < p.shape.batch; ++b)
    for (int h = 0; h < p.shape.query_heads; ++h)
      for (index_t tile = 0; tile < index.tiles; ++tile) {
        auto const right = blocks_by_definition<Block>(p, b, h, tile, amounts.keep_blocks);
        ++v.seen;
        if (right.gap < 1e-5) continue;
        ++v.compared;
        auto const s = p.sequence(b);
        auto const read = keys_of(index, s, b, h, tile);
        std::vector<std::int32_t> keys;
        for (index_t const c : right.kept)
          for (index_t j = c * Block; j < std::min((c + 1) * Block, index.limit_of(s, tile)); ++j)
            keys.push_back(static_cast<std::int32_t>(j));
        v.equal &= read.sound && read.keys == keys;
      }
  return v;
}

template <int Block, class Exec>
verdict against_definition(Exec const& exec, pattern_problem const& p, lacuna::block_sparse_of<Block> const& amounts) {
  return against_definition(build_index(exec, amounts, p).index, p, amounts);
}

}  // namespace test
