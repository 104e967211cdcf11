#pragma once
#include <lacuna/core/element.hpp>
#include <lacuna/core/sparse_index.hpp>
#include <lacuna/kernels/top_k.hpp>

#include <cstddef>
#include <cstdint>

namespace lacuna {

/// Mean of each block's keys in fp32, tokens added in ascending order; the last block averages the tokens it has. Block
/// (b * kv_count + i) * blocks of a sequence + key block, for KV heads first_kv + i.
template <class Inputs>
struct pool_key_blocks {
  Inputs in;
  int block_tokens;
  int first_kv, kv_count;
  index_t key_blocks;  // ceil(keys / block_tokens) of the capacity
  float* pooled;       // [batch, kv heads, key blocks, key dim]

  LACUNA_HD index_t blocks() const { return in.shape.batch * kv_count * key_blocks; }
  LACUNA_HD std::size_t scratch_bytes() const { return 0; }
  LACUNA_HD float* at(index_t b, int kv_head, index_t block) const {
    return pooled + ((b * in.shape.kv_heads + kv_head) * key_blocks + block) * in.shape.key_dim;
  }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
    index_t const b = block / key_blocks / kv_count, c = block % key_blocks;
    int const head = first_kv + static_cast<int>(block / key_blocks % kv_count);
    sequence const s = sequence_at(in.lengths, in.shape, b);
    index_t const begin = c * block_tokens, end = min<index_t>(begin + block_tokens, s.keys);
    for (int d = team.rank(); d < in.shape.key_dim && begin < end; d += team.size()) {
      float sum = 0;
      for (index_t key = begin; key < end; ++key) sum += to_float(in.kv.key(s, b, head, key)[d]);
      at(b, head, c)[d] = sum / static_cast<float>(end - begin);
    }
  }
};

/// Key blocks of a query tile ranked by score: those of the tile's own positions forced, later ones not in the row.
struct ranked_blocks {
  float const* scores;
  index_t count;
  index_t own_begin, own_end;  // blocks that hold the tile's positions

  LACUNA_HD index_t size() const { return count; }
  LACUNA_HD float score(index_t c) const { return scores[c]; }
  LACUNA_HD standing standing_of(index_t c) const { return c >= own_begin && c < own_end ? standing::forced : standing::ranked; }
};

/// Chooses the key blocks of every query tile from pooled queries and keys and writes them as spans. A tile may lie across two key blocks
/// (fewer queries than keys): both are its diagonal. The softmax of the definition keeps the order of its logits, so it is left out.
/// Block w is a worker that takes tasks w, w + workers, ...: score rows need memory per worker, not per tile. [MInference, section 3]
template <class Inputs, class HeadSet>
struct block_lists {
  pool_key_blocks<Inputs> pool;
  sparse_index index;  // tile_rows = block_tokens
  HeadSet heads;
  float* scores;         // [workers, key blocks]
  std::int32_t* chosen;  // [workers, key blocks]
  index_t workers;       // at most

  LACUNA_HD index_t tasks() const { return index_t{index.batch} * heads.count * index.tiles; }
  LACUNA_HD index_t blocks() const { return min(workers, tasks()); }
  LACUNA_HD std::size_t scratch_bytes() const { return top_k<ranked_blocks>::scratch_bytes + 256 * sizeof(float); }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t worker) const {
    for (index_t t = worker; t < tasks(); t += blocks()) {
      index_t const b = t / index.tiles / heads.count, tile = t % index.tiles;
      int const i = static_cast<int>(t / index.tiles % heads.count);
      if (tile == 0 && team.rank() == 0) clear_shared(index.head_at(b, heads.list[i]));
      choose(team, worker, b, i, tile);
      team.sync();  // scratch is free again
    }
  }

 private:
  LACUNA_HD void clear_shared(index_t head) const {
    index.prefix[head] = 0, index.rules[head] = head_rule{};
    index.shared_count[head * 2] = index.shared_count[head * 2 + 1] = 0;
    index.column_count[head] = 0;
  }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void choose(Team& team, index_t worker, index_t b, int i, index_t tile) const {
    sequence const s = sequence_at(pool.in.lengths, pool.in.shape, b);
    index_t const rows = index.rows_of(s, tile), limit = index.limit_of(s, tile);
    float* const pooled = reinterpret_cast<float*>(team.scratch() + top_k<ranked_blocks>::scratch_bytes);
    float* const row = scores + worker * pool.key_blocks;
    std::int32_t* const kept = chosen + worker * pool.key_blocks;
    pool_queries(team, s, b, heads.list[i], tile * index.tile_rows, rows, pooled);
    team.sync();
    ranked_blocks const ranked = row_of(s, tile, rows, limit, row);
    score(team, b, heads.list[i], ranked.count, pooled, row);
    team.sync();
    index_t const count = top_k<ranked_blocks>{ranked, heads.of(i).keep_blocks}(team, team.scratch(), kept);
    if (team.rank() == 0) write(index.row_at(b, heads.list[i], tile), kept, count);
  }

  LACUNA_HD ranked_blocks row_of(sequence const& s, index_t tile, index_t rows, index_t limit, float const* row) const {
    index_t const first = s.position(tile * index.tile_rows), last = min(first + rows, s.keys) - 1;
    if (rows == 0 || last < 0) return {row, ceil_div<index_t>(limit, pool.block_tokens), 0, 0};
    return {row, ceil_div<index_t>(limit, pool.block_tokens), max<index_t>(first, 0) / pool.block_tokens, last / pool.block_tokens + 1};
  }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void pool_queries(Team& team, sequence const& s, index_t b, int head, index_t first, index_t rows, float* pooled) const {
    for (int d = team.rank(); d < pool.in.shape.key_dim; d += team.size()) {
      float sum = 0;
      for (index_t r = 0; r < rows; ++r) sum += to_float(pool.in.q.row(b, s.first_query + first + r, head)[d]);
      pooled[d] = sum / static_cast<float>(max<index_t>(rows, 1));
    }
  }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void score(Team& team, index_t b, int head, index_t count, float const* pooled, float* row) const {
    for (index_t c = team.rank(); c < count; c += team.size()) {
      float const* const k = pool.at(b, pool.in.shape.kv_head(head), c);
      float dot = 0;
      for (int d = 0; d < pool.in.shape.key_dim; ++d) dot += pooled[d] * k[d];
      row[c] = pool.in.logits(dot);
    }
  }

  /// Neighbouring blocks make one span.
  LACUNA_HD void write(index_t row, std::int32_t const* kept, index_t count) const {
    span* const out = index.own + index.own_at(row);
    int spans = 0;
    for (index_t k = 0; k < count; ++k) {
      std::int32_t const begin = kept[k] * pool.block_tokens, end = begin + pool.block_tokens;
      if (spans && out[spans - 1].end == begin)
        out[spans - 1].end = end;
      else
        out[spans++] = {begin, end};
    }
    for (int e = 0; index.members && e < spans; ++e) index.members[index.own_at(row) + e] = ~std::uint64_t{0};
    index.row_count[row] = spans;
  }
};

}  // namespace lacuna
