#pragma once
#include <lacuna/kernels/block_lists.hpp>
#include <lacuna/pattern/pattern.hpp>

namespace lacuna {

/// Blocks of keys chosen for each tile of `Block` queries by the product of their means. Blocks of the tile's own positions are always
/// kept, blocks after them never read (if causal). Per query head. [MInference, section 3]
/// A sequence that turns out to have more queries than keys leaves its first rows empty if causal; planning for that is refused.
template <int Block = 64>
struct block_sparse_of {
  static_assert(Block >= 8 && Block <= 256 && Block % 8 == 0, "a block is a multiple of 8 tokens up to 256");
  std::int32_t keep_blocks = 100;  // of each tile, its own included; more than the sequence has keeps all

  static constexpr int granularity = Block;
  static constexpr bool columns = false;

  void check(attention_shape const& s) const {
    require(keep_blocks >= 1, "keep_blocks is ", keep_blocks, "; expected at least 1: a tile reads its own block");
    require(s.queries <= s.keys, "queries is ", s.queries, ", keys is ", s.keys, "; block_sparse expects at most as many queries as keys");
  }

  int lists(attention_shape const& s) const { return s.query_heads; }
  int tile_rows() const { return Block; }

  /// A tile lies across two blocks at most, and both are kept. No two spans touch.
  index_capacity capacity(attention_shape const& s) const {
    index_t const kept = max(keep_blocks, 2);
    return {.spans = static_cast<int>(min(kept, ceil_div<index_t>(key_blocks(s), 2))), .blocks = static_cast<int>(min(kept, key_blocks(s)))};
  }

  std::size_t workspace_bytes(attention_shape const& s) const {
    detail::carver count{nullptr};
    memory::carve(count, s, min(s.query_heads, head_set<block_sparse_of>::most));
    return count.bytes();
  }

  template <class Exec, class Inputs>
  static status build(Exec const& exec, Inputs const& in, std::byte* workspace, sparse_index const& index,
                      head_set<block_sparse_of> const& heads) {
    if (heads.count == 0) return {};
    detail::carver block{workspace};
    memory const m = memory::carve(block, in.shape, heads.count);
    int const first = in.shape.kv_head(heads.list[0]), last = in.shape.kv_head(heads.list[heads.count - 1]);
    pool_key_blocks<Inputs> const pool{in, Block, first, last - first + 1, key_blocks(in.shape), m.pooled};
    return launch_in_order(exec, pool, block_lists<Inputs, head_set<block_sparse_of>>{pool, index, heads, m.scores, m.chosen, m.workers});
  }

  friend bool operator==(block_sparse_of const&, block_sparse_of const&) = default;

 private:
  static constexpr index_t key_blocks(attention_shape const& s) { return ceil_div<index_t>(s.keys, Block); }

  struct memory {
    float* pooled;
    float* scores;
    std::int32_t* chosen;
    index_t workers;  // enough to fill a GPU

    static memory carve(detail::carver& block, attention_shape const& s, int heads) {
      index_t const blocks = key_blocks(s);
      memory m;
      m.workers = clamp<index_t>(s.batch * heads * ceil_div<index_t>(s.queries, Block), 1, 512);
      m.pooled = block.take<float>(s.batch * s.kv_heads * blocks * s.key_dim);
      m.scores = block.take<float>(m.workers * blocks);
      m.chosen = block.take<std::int32_t>(m.workers * blocks);
      return m;
    }
  };
};

/// The paper's block size.
using block_sparse = block_sparse_of<64>;

static_assert(BuiltPattern<block_sparse> && SparsePattern<block_sparse>);

}  // namespace lacuna
