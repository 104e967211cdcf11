#pragma once
#include <lacuna/kernels/choose_chunks.hpp>
#include <lacuna/kernels/scan_queries.hpp>
#include <lacuna/pruning/chunk_scan.hpp>
#include <lacuna/pruning/refresh.hpp>
#include <lacuna/pruning/scan_grid.hpp>

#include <cstddef>
#include <cstdint>

namespace lacuna {

/// Summaries of all chunks from the sinks on. A view; empty for rules that read keys.
struct summary_rows {
  float* rows = nullptr;  // [batch, KV head, chunks, planes * key dim]
  index_t chunks = 0;     // capacity
  int kv_heads = 1, floats = 0;

  LACUNA_HD float* at(index_t b, int kv_head, index_t chunk) const { return rows + ((b * kv_heads + kv_head) * chunks + chunk) * floats; }
};

/// What one stage of a pruning run reads and writes, whichever body executes it. [InfiniteHiP, algorithm 2]
template <class Inputs, class Stage>
struct stage_args {
  Inputs in;
  scan_grid grid;
  scan_rope rope;
  Stage stage;
  kept_chunks from;  // of the stage before; chunk 0: this is the first stage
  kept_chunks to;
  refresh_gate gate;
  int number = 0;  // of the stage
  summary_rows summaries;

  /// A query block of one list: what a task works on.
  struct task {
    index_t b, block;
    int list;
    sequence s;
    int rows;      // queries that exist
    bool scanned;  // the block is one that the grid looks at, and its turn has come
    candidate_row offered;
    index_t chunks;  // of the position style's numbering
  };

  LACUNA_HD index_t tasks() const { return in.shape.batch * grid.lists * to.blocks; }

  LACUNA_HD task task_at(index_t t) const {
    task x{};
    x.b = t / to.blocks / grid.lists, x.list = static_cast<int>(t / to.blocks % grid.lists), x.block = t % to.blocks;
    x.s = sequence_at(in.lengths, in.shape, x.b);
    x.rows = static_cast<int>(clamp<index_t>(x.s.queries - x.block * to.query_block, 0, to.query_block));
    x.scanned = x.rows > 0 && grid.leader(x.s, x.block, to.query_block) == x.block;
    x.scanned = x.scanned && gate.due(x.b, x.s, number);
    if (!x.scanned) return x;
    if (from.chunk == 0)
      x.offered = candidate_row::all(Stage::chunk, grid.sinks, grid.end(x.s, x.block * to.query_block / grid.query_block));
    else
      x.offered =
          candidate_row::within(Stage::chunk, grid.sinks, from, from.row_at(x.b, x.list, x.block * to.query_block / from.query_block));
    x.chunks = rope.numbers == chunk_numbers::grid ? x.offered.grid_chunks() : x.offered.count;
    return x;
  }

  LACUNA_HD scan_block block_of(task const& t) const { return {t.b, t.block * to.query_block, t.rows, stage.pool, t.chunks, t.s}; }

  LACUNA_HD scanned_key key_at(task const& t, index_t candidate, index_t position, branch side) const {
    return {position, rope.numbers == chunk_numbers::grid ? t.offered.number(candidate) : candidate, t.chunks, side};
  }

  LACUNA_HD chunk_place place_of(task const& t, int kv_head, index_t candidate) const {
    return {t.b, kv_head, t.offered.number(candidate), t.offered.begin(candidate), t.offered.tokens(candidate)};
  }

  /// Query heads of a list.
  LACUNA_HD int first_head(int list) const { return list * (in.shape.query_heads / grid.lists); }
  LACUNA_HD int end_head(int list) const { return (list + 1) * (in.shape.query_heads / grid.lists); }

  /// The budget holds whatever is offered, so nothing need be scored.
  LACUNA_HD bool keeps_all(task const& t) const {
    return std::is_same_v<typename Stage::chooser_type, best_chunks> && t.offered.count <= stage.keep_chunks();
  }

  /// Chunk numbers of the chosen candidates; of all if `chosen` is null.
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void publish(Team& team, task const& t, std::int32_t const* chosen, index_t count) const {
    index_t const row = to.row_at(t.b, t.list, t.block);
    for (index_t i = team.rank(); i < count; i += team.size())
      to.chunks_of(row)[i] = static_cast<std::int32_t>(t.offered.number(chosen ? chosen[i] : i));
    if (team.rank() != 0) return;
    to.count[row] = static_cast<std::int32_t>(count);
    to.end[row] = static_cast<std::int32_t>(t.offered.end);
  }
};

/// The portable body of a stage: right for every rule, style and team. Block w is a worker that takes tasks w, w + workers, ...; heads of a
/// list come one after the other, so a worker holds the turned queries of one head.
template <class Inputs, class Stage>
struct scan_stage {
  stage_args<Inputs, Stage> args;
  float* queries;        // [workers, query_floats()]
  float* scores;         // [workers, most]
  std::int32_t* chosen;  // [workers, most]
  index_t most;          // candidates of a block
  index_t workers;       // at most

  using rule_type = typename Stage::rule_type;
  using task = typename stage_args<Inputs, Stage>::task;
  using chooser = choose_chunks<typename Stage::chooser_type>;

  LACUNA_HD index_t blocks() const { return min(workers, args.tasks()); }
  LACUNA_HD std::size_t scratch_bytes() const { return chooser::scratch_bytes; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t worker) const {
    for (index_t i = worker; i < args.tasks(); i += blocks()) {
      task const t = args.task_at(i);
      if (!t.scanned) continue;
      if (args.keeps_all(t)) {
        team.sync();  // everyone has looked at what the stage kept before
        args.publish(team, t, nullptr, t.offered.count);
        continue;
      }
      float* const row = scores + worker * most;
      score(team, t, worker, row);
      chooser const choose{args.stage.chooser, args.in.logits, {row, t.offered.count}, args.stage.keep_chunks()};
      index_t const count = choose(team, team.scratch(), chosen + worker * most);
      args.publish(team, t, chosen + worker * most, count);
      team.sync();  // scratch and the worker's rows are free again
    }
  }

 private:
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void score(Team& team, task const& t, index_t worker, float* row) const {
    if constexpr (ScoreRule<rule_type>) {
      for (index_t c = team.rank(); c < t.offered.count; c += team.size())
        row[c] = args.stage.rule.score(t.b, t.list, t.block, t.offered.number(c));
      team.sync();
    } else {
      scan_queries<rule_type> const q{args.rope, args.block_of(t), args.in.shape.key_dim,
                                      queries + worker * scan_queries<rule_type>::floats(args.in.shape.key_dim, args.to.query_block)};
      for (int head = args.first_head(t.list); head < args.end_head(t.list); ++head) {
        q.prepare(team, args.in, head);
        team.sync();
        for (index_t c = team.rank(); c < t.offered.count; c += team.size()) {
          float const s = score_chunk(t, q, args.in.shape.kv_head(head), c);
          row[c] = head == args.first_head(t.list) ? s : max(row[c], s);
        }
        team.sync();
      }
    }
  }

  LACUNA_HD float score_chunk(task const& t, scan_queries<rule_type> const& q, int kv_head, index_t c) const {
    chunk_place const at = args.place_of(t, kv_head, c);
    auto const probe = [&](std::int32_t offset, bool left) {
      scanned_key const key = args.key_at(t, c, at.begin + offset, left ? branch::left : branch::right);
      return q.best(args.in.kv.key(t.s, t.b, kv_head, key.position), key);
    };
    if constexpr (SearchRule<rule_type>) {
      return search_chunk(args.stage.rule, at.tokens, probe);
    } else if constexpr (ReadRule<rule_type>) {
      float best = -infinity;
      for (int i = 0; i < args.stage.rule.reads(at.tokens); ++i) best = max(best, probe(args.stage.rule.offset(i, at), true));
      return best;
    } else {
      return q.best(args.summaries.at(t.b, kv_head, at.number), args.key_at(t, c, at.begin, branch::left));
    }
  }
};

/// Summaries of the chunks of all sequences. Block (b * KV heads + head) * chunks + chunk.
template <class Inputs, class Stage>
struct summarize_chunks {
  Inputs in;
  std::int32_t sinks;
  refresh_gate gate;
  int number;  // of the stage
  summary_rows to;

  using rule_type = typename Stage::rule_type;

  LACUNA_HD index_t blocks() const { return in.shape.batch * in.shape.kv_heads * to.chunks; }
  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  struct task {
    index_t b, chunk;
    int head;
    sequence s;
    index_t begin, end;  // keys; none if the chunk does not exist or its stage does not run
  };

  LACUNA_HD task task_at(index_t block) const {
    task t{};
    t.chunk = block % to.chunks, t.b = block / to.chunks / in.shape.kv_heads;
    t.head = static_cast<int>(block / to.chunks % in.shape.kv_heads);
    t.s = sequence_at(in.lengths, in.shape, t.b);
    if (!gate.due(t.b, t.s, number)) return t;
    t.begin = sinks + t.chunk * Stage::chunk, t.end = min<index_t>(t.begin + Stage::chunk, t.s.keys);
    return t;
  }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
    task const t = task_at(block);
    int const dim = in.shape.key_dim;
    for (int d = team.rank(); d < dim && t.begin < t.end; d += team.size())
      for (int plane = 0; plane < rule_type::planes; ++plane) {
        float sum = rule_type::start(plane);
        for (index_t key = t.begin; key < t.end; ++key) sum = rule_type::add(plane, sum, to_float(in.kv.key(t.s, t.b, t.head, key)[d]));
        to.at(t.b, t.head, t.chunk)[plane * dim + d] = rule_type::finish(sum, static_cast<int>(t.end - t.begin));
      }
  }
};

}  // namespace lacuna
