#pragma once
#include "support.cuh"

namespace bench {

/// Lists drawn at random: up to `count` blocks before a tile's own keys, and those. Stands for a pattern that looks at the data.
template <int Block>
struct random_blocks {
  int count;

  given_lists<Block> pattern(attention_shape const&, int heads, int rows) const {
    int const most = count + rows / Block + 2;
    return {heads, rows, {.spans = most, .blocks = most}};
  }

  template <class Prefill>
  void fill(Prefill const& p) const {
    auto const& s = p.plan.shape();
    auto const x = p.index();
    index_t const lists = index_t{x.batch} * x.heads, rows = lists * x.tiles;
    std::vector<std::int32_t> counts(rows);
    std::vector<lacuna::span> spans(rows * x.capacity.spans);
    std::mt19937 engine{7};
    lacuna::sequence const whole{0, s.queries, 0, s.keys};
    for (index_t r = 0; r < rows; ++r) {
      auto const kept = draw(engine, whole.position(r % x.tiles * x.tile_rows), x.limit_of(whole, r % x.tiles));
      counts[r] = static_cast<std::int32_t>(kept.size());
      for (std::size_t i = 0; i < kept.size(); ++i)
        spans[r * x.capacity.spans + i] = {static_cast<std::int32_t>(kept[i] * Block), static_cast<std::int32_t>((kept[i] + 1) * Block)};
    }
    put(x.row_count, counts), put(x.own, spans);
    put(x.rules, std::vector<lacuna::head_rule>(lists)), put(x.prefix, std::vector<std::int32_t>(lists, 0));
    put(x.shared_count, std::vector<std::int32_t>(lists * 2, 0));
  }

 private:
  /// Ascending blocks of a tile whose first query stands at `position` and that ends before `limit`.
  std::vector<index_t> draw(std::mt19937& engine, index_t position, index_t limit) const {
    index_t const own = std::max<index_t>(0, position) / Block;
    std::vector<index_t> kept;
    for (int i = 0; i < count && own > 0; ++i) kept.push_back(engine() % own);
    for (index_t k = own; k * Block < limit; ++k) kept.push_back(k);
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    return kept;
  }
};

}  // namespace bench
