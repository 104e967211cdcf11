#pragma once
#include <lacuna/pattern/pattern.hpp>

namespace test {

/// Blocks drawn by a hash for every tile of `Tile` query tokens, its own block included, so that neighbouring lists overlap in part. Some
/// rows are empty, and rows that read their own block only stand alone; the others start with a prefix. One list a KV head.
template <int Tile, int Block>
struct scattered_blocks {
  int keep = 6;  // own spans at most

  static constexpr int granularity = Block;
  static constexpr bool columns = false;

  void check(lacuna::attention_shape const&) const {}
  int lists(lacuna::attention_shape const& s) const { return s.kv_heads; }
  int tile_rows() const { return Tile; }
  lacuna::index_capacity capacity(lacuna::attention_shape const&) const { return {.spans = keep}; }
  std::size_t workspace_bytes(lacuna::attention_shape const&) const { return 0; }

  /// Block i: list i of the batch.
  struct body {
    lacuna::attention_shape shape;
    lacuna::sequence_lengths lengths;
    lacuna::sparse_index index;
    int keep;

    LACUNA_HD std::size_t scratch_bytes() const { return 0; }

    LACUNA_ANY_TEAM
    template <class Team>
    LACUNA_HD void operator()(Team& team, lacuna::index_t head) const {
      lacuna::sequence const s = lacuna::sequence_at(lengths, shape, head / index.heads);
      if (team.rank() == 0) index.prefix[head] = 1 + static_cast<int>(head % 2 * (Block - 1)), index.rules[head] = {};
      for (lacuna::index_t tile = team.rank(); tile < index.tiles; tile += team.size())
        write(s, head, tile, static_cast<std::int32_t>(index.limit_of(s, tile)));
    }

    LACUNA_HD void write(lacuna::sequence const& s, lacuna::index_t head, lacuna::index_t tile, std::int32_t limit) const {
      lacuna::index_t const row = head * index.tiles + tile;
      unsigned const h = hash(static_cast<unsigned>(head * 977 + tile / 3));  // three neighbours draw alike
      std::int32_t count = 0, at = Block;
      bool const alone = tile % 7 == 0;
      while (!alone && count < keep - 1 && at + Block < limit) {
        at += Block * static_cast<int>(hash(h + count) % 5);
        index.own[index.own_at(row) + count++] = {at, at + Block};
        at += Block;
      }
      std::int32_t const own = (limit - 1) / Block * Block;
      if (limit > 0 && own >= at && tile % 5 != 1) index.own[index.own_at(row) + count++] = {own, own + Block};
      index.row_count[row] = count | (alone ? lacuna::sparse_index::alone : 0);
      static_cast<void>(s);
    }

    LACUNA_HD static unsigned hash(unsigned x) {
      x = (x ^ x >> 16) * 0x7feb352du;
      x = (x ^ x >> 15) * 0x846ca68bu;
      return x ^ x >> 16;
    }
  };

  template <class Exec, class Inputs>
  static lacuna::status build(Exec const& exec, Inputs const& in, std::byte*, lacuna::sparse_index const& index,
                              lacuna::head_set<scattered_blocks> const& heads) {
    return exec.launch({index.batch * index.heads, 64}, body{in.shape, in.lengths, index, heads.of(0).keep});
  }
};

static_assert(lacuna::BuiltPattern<scattered_blocks<1, 8>>);

}  // namespace test
