#pragma once
#include <lacuna/core/shape.hpp>

#include <cstdint>

namespace lacuna {

/// Which query blocks a pruning scan looks at and which keys it offers them. Blocks here are those of the first stage. Every `stride`-th
/// block is scanned, so aligned that the last one is; the first one is too, and the blocks between read the list of the scanned one
/// before them, so that no query's list depends on later queries.
struct scan_grid {
  std::int32_t sinks = 0;
  std::int32_t window = 0;       // keys of the last `window` positions before a block are not offered
  std::int32_t query_block = 1;  // of the first stage
  std::int32_t stride = 1;
  int lists = 1;  // per sequence
  bool causal = true;

  LACUNA_HD constexpr index_t blocks(sequence const& s) const { return ceil_div<index_t>(s.queries, query_block); }

  /// The scanned block whose list block m reads.
  LACUNA_HD constexpr index_t leader(sequence const& s, index_t m) const {
    index_t const last = blocks(s) - 1;
    return max<index_t>(last - round_up<index_t>(last - m, stride), 0);
  }

  /// Keys [sinks, end) are offered to block m.
  LACUNA_HD constexpr index_t end(sequence const& s, index_t m) const {
    return max<index_t>(min(s.position(m * query_block) - window, s.keys), sinks);
  }

  /// The same for a smaller block of `rows` queries, number m of its size: the block itself, or the last one of the leader's.
  LACUNA_HD constexpr index_t leader(sequence const& s, index_t m, std::int32_t rows) const {
    index_t const parts = query_block / rows, own = m / parts, lead = leader(s, own);
    return lead == own ? m : (lead + 1) * parts - 1;
  }
};

/// What a stage kept for each of its query blocks: chunk numbers, ascending, counted from the sinks on. A view.
struct kept_chunks {
  int chunk = 0;        // tokens
  int query_block = 1;  // queries
  int lists = 1;
  index_t blocks = 0;              // of a list, capacity
  index_t most = 0;                // chunks of a block
  std::int32_t* chunks = nullptr;  // [batch, lists, blocks, most]
  std::int32_t* count = nullptr;   // [batch, lists, blocks]
  std::int32_t* end = nullptr;     // [batch, lists, blocks] first key that was not offered to the first stage

  LACUNA_HD constexpr index_t row_at(index_t b, int list, index_t block) const { return (b * lists + list) * blocks + block; }
  LACUNA_HD constexpr std::int32_t* chunks_of(index_t row) const { return chunks + row * most; }
};

/// Candidate chunks of one query block, in ascending order: those of the whole scanned range, or the parts of what the stage before kept.
struct candidate_row {
  int chunk = 0;  // tokens
  std::int32_t sinks = 0;
  index_t end = 0;                        // of the scanned keys
  std::int32_t const* parents = nullptr;  // of the stage before; null: all chunks
  int parts = 1;                          // chunks of a parent
  index_t count = 0;

  LACUNA_HD static constexpr candidate_row all(int chunk, std::int32_t sinks, index_t end) {
    return {chunk, sinks, end, nullptr, 1, ceil_div<index_t>(end - sinks, chunk)};
  }

  LACUNA_HD static constexpr candidate_row within(int chunk, std::int32_t sinks, kept_chunks const& from, index_t row) {
    candidate_row c{chunk, sinks, from.end[row], from.chunks_of(row), from.chunk / chunk, 0};
    index_t const parents = from.count[row];
    if (parents == 0) return c;
    index_t const last = sinks + index_t{c.parents[parents - 1]} * from.chunk;  // the only parent that may be partial
    c.count = (parents - 1) * c.parts + ceil_div<index_t>(min<index_t>(c.end - last, from.chunk), chunk);
    return c;
  }

  LACUNA_HD constexpr index_t number(index_t i) const { return parents ? index_t{parents[i / parts]} * parts + i % parts : i; }
  LACUNA_HD constexpr index_t begin(index_t i) const { return sinks + number(i) * chunk; }
  LACUNA_HD constexpr int tokens(index_t i) const { return static_cast<int>(min<index_t>(chunk, end - begin(i))); }
  LACUNA_HD constexpr index_t grid_chunks() const { return ceil_div<index_t>(end - sinks, chunk); }
};

}  // namespace lacuna
