#pragma once
#include <lacuna/core/error.hpp>
#include <lacuna/pruning/chooser.hpp>
#include <lacuna/pruning/key_summary.hpp>
#include <lacuna/pruning/representative.hpp>

#include <type_traits>

namespace lacuna {

template <class R>
concept ChunkRule = SearchRule<R> || ReadRule<R> || KeySummary<R> || ScoreRule<R>;

/// Exact where it is no dearer than halving.
template <int Chunk>
using default_rule = std::conditional_t<(Chunk <= 8), every_token, halving>;

/// One pruning stage: scores chunks of `Chunk` tokens against a block of queries and keeps some. [InfiniteHiP, algorithm 2]
template <int Chunk, ChunkRule Rule = default_rule<Chunk>, ChunkChooser Chooser = best_chunks>
struct chunk_scan {
  static_assert(Chunk >= 1 && Chunk <= 1 << 16, "a chunk has 1 to 65536 tokens");
  static constexpr int chunk = Chunk;
  using rule_type = Rule;
  using chooser_type = Chooser;

  std::int32_t keep = 2048;       // tokens at most, a multiple of the chunk
  std::int32_t query_block = 64;  // queries that share what is kept
  std::int32_t pool = 1;          // neighbouring queries whose mean is scored: 1, 2 or 4
  Rule rule = {};
  Chooser chooser = {};

  LACUNA_HD constexpr index_t keep_chunks() const { return keep / Chunk; }

  void check() const {
    require(keep >= Chunk && keep % Chunk == 0, "keep is ", keep, "; expected a positive multiple of the chunk of ", Chunk);
    require(query_block >= 1 && query_block <= 256, "query_block is ", query_block, "; expected 1 to 256");
    require(pool == 1 || pool == 2 || pool == 4, "pool is ", pool, "; expected 1, 2 or 4");
    chooser.check();
  }

  friend bool operator==(chunk_scan const&, chunk_scan const&) = default;
};

/// Pages judged by the bound of their keys. [Quest]
template <int Page, ChunkChooser Chooser = best_chunks>
using page_bound = chunk_scan<Page, min_max_bound, Chooser>;

/// Blocks judged by the mean of their keys. [MoBA]
template <int Block, ChunkChooser Chooser = best_chunks>
using block_mean = chunk_scan<Block, key_mean, Chooser>;

/// Chunks judged by scores from elsewhere.
template <int Chunk, ChunkChooser Chooser = best_chunks>
using scored_chunks = chunk_scan<Chunk, given_scores, Chooser>;

/// A stage of pruned<...>.
template <class S>
concept PruningStage = std::is_trivially_copyable_v<S> && ChunkRule<typename S::rule_type> && ChunkChooser<typename S::chooser_type> &&
    requires(S const s) {
  { S::chunk } -> std::convertible_to<int>;
  { s.keep } -> std::convertible_to<std::int32_t>;
  { s.query_block } -> std::convertible_to<std::int32_t>;
  { s.pool } -> std::convertible_to<std::int32_t>;
  { s.keep_chunks() } -> std::same_as<index_t>;
  { s.rule } -> std::convertible_to<typename S::rule_type>;
  { s.chooser } -> std::convertible_to<typename S::chooser_type>;
  s.check();
};

static_assert(PruningStage<chunk_scan<256>> && PruningStage<page_bound<16>> && PruningStage<block_mean<64, top_mass>> &&
              PruningStage<scored_chunks<64>>);
static_assert(SearchRule<chunk_scan<32>::rule_type> && ReadRule<chunk_scan<8>::rule_type>);

}  // namespace lacuna
