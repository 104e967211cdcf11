#pragma once
#include <lacuna/exec/host_executor.hpp>
#include <lacuna/kernels/host/scan_rows.hpp>
#include <lacuna/kernels/scan_stage.hpp>

namespace lacuna {

/// The scan of scan_stage in vector registers: keys are read once for all heads that share them, halving goes step by step through a
/// batch of chunks. Same lists, up to rounding of scores.
template <class Inputs, class Stage>
class host_scan {
 public:
  using element = typename Inputs::element;
  using rule_type = typename Stage::rule_type;
  using args_type = stage_args<Inputs, Stage>;
  using task = typename args_type::task;
  using rows_type = host_scan_rows<rule_type>;

  host_scan(args_type const& args, host_isa isa) : args_{args}, isa_{isa} {}

  std::size_t scratch_bytes() const {
    detail::carver count{nullptr};
    make_rows(count);
    return count.bytes();
  }

  /// Scores candidates begin .. end - 1 of a task.
  void operator()(task const& t, index_t begin, index_t end, float* scores, std::byte* scratch) const {
    if constexpr (ScoreRule<rule_type>) {
      for (index_t c = begin; c < end; ++c) scores[c] = args_.stage.rule.score(t.b, t.list, t.block, t.offered.number(c));
    } else {
      detail::carver block{scratch};
      rows_type rows = make_rows(block);
      for (index_t c = begin; c < end; ++c) scores[c] = -infinity;
      for (int head = args_.first_head(t.list); head < args_.end_head(t.list); head += heads_at_once()) {
        rows.prepare(args_.in, args_.block_of(t), head, heads_at_once());
        int const kv_head = args_.in.shape.kv_head(head);
        if constexpr (SearchRule<rule_type>)
          search(t, kv_head, begin, end, rows, scores);
        else
          read(t, kv_head, begin, end, rows, scores);
      }
    }
  }

 private:
  /// Searches go their own ways; what is read anyway is read for all heads of a KV head that share the list.
  int heads_at_once() const {
    return SearchRule<rule_type> ? 1 : min(args_.in.shape.group(), args_.in.shape.query_heads / args_.grid.lists);
  }

  rows_type make_rows(detail::carver& block) const {
    return {args_.rope, args_.in.shape.key_dim, args_.to.query_block, heads_at_once(), isa_, block};
  }

  element const* key(task const& t, int kv_head, index_t position) const { return args_.in.kv.key(t.s, t.b, kv_head, position); }

  void read(task const& t, int kv_head, index_t begin, index_t end, rows_type& rows, float* scores) const {
    using row_type = std::conditional_t<KeySummary<rule_type>, float, element>;
    row_type const* row[rows_type::most_keys];
    scanned_key at[rows_type::most_keys];
    index_t candidate[rows_type::most_keys];
    float best[rows_type::most_keys];
    int held = 0;
    auto const flush = [&] {
      rows.best(row, at, held, best);
      for (int j = 0; j < held; ++j) scores[candidate[j]] = max(scores[candidate[j]], best[j]);
      held = 0;
    };
    for (index_t c = begin; c < end; ++c) {
      chunk_place const place = args_.place_of(t, kv_head, c);
      if constexpr (KeySummary<rule_type>) {
        row[held] = args_.summaries.at(t.b, kv_head, place.number), at[held] = args_.key_at(t, c, place.begin, branch::left);
        candidate[held++] = c;
        if (held == rows_type::most_keys) flush();
      } else {
        for (int i = 0; i < args_.stage.rule.reads(place.tokens); ++i) {
          index_t const position = place.begin + args_.stage.rule.offset(i, place);
          row[held] = key(t, kv_head, position), at[held] = args_.key_at(t, c, position, branch::left), candidate[held++] = c;
          if (held == rows_type::most_keys) flush();
        }
      }
    }
    if (held > 0) flush();
  }

  /// Chunks that are searched side by side.
  struct search_batch {
    int count = 0;
    index_t candidate[rows_type::most_keys];
    chunk_place place[rows_type::most_keys];
    token_range range[rows_type::most_keys];
    float path[rows_type::most_keys], score[2][rows_type::most_keys];
  };

  void search(task const& t, int kv_head, index_t begin, index_t end, rows_type& rows, float* scores) const {
    auto const& rule = args_.stage.rule;
    for (index_t first = begin; first < end; first += rows_type::most_keys) {
      search_batch x;
      int steps = 0;
      for (index_t c = first; c < min<index_t>(first + rows_type::most_keys, end); ++c, ++x.count) {
        x.candidate[x.count] = c, x.place[x.count] = args_.place_of(t, kv_head, c);
        x.range[x.count] = {0, x.place[x.count].tokens}, x.path[x.count] = -infinity;
        steps = max(steps, rule.steps(x.place[x.count].tokens));
      }
      for (int step = 0; step < steps; ++step) halve(t, kv_head, step, rows, x);
      for (int j = 0; j < x.count; ++j) scores[x.candidate[j]] = max(scores[x.candidate[j]], rule.finish(x.path[j]));
    }
  }

  /// One step of all chunks; those that are done stay as they are.
  void halve(task const& t, int kv_head, int step, rows_type& rows, search_batch& x) const {
    auto const& rule = args_.stage.rule;
    for (int side = 0; side < 2; ++side) {
      element const* row[rows_type::most_keys];
      scanned_key at[rows_type::most_keys];
      for (int j = 0; j < x.count; ++j) {
        index_t const position = x.place[j].begin + (side == 0 ? rule.left(x.range[j]) : rule.right(x.range[j]));
        row[j] = key(t, kv_head, position);
        at[j] = args_.key_at(t, x.candidate[j], position, side == 0 ? branch::left : branch::right);
      }
      rows.best(row, at, x.count, x.score[side]);
    }
    for (int j = 0; j < x.count; ++j) {
      if (step >= rule.steps(x.place[j].tokens)) continue;
      bool const left = rule.takes_left(x.score[0][j], x.score[1][j]);
      x.path[j] = rule.kept(x.path[j], x.score[left ? 0 : 1][j]);
      x.range[j] = x.range[j].half(left);
    }
  }

  args_type const& args_;
  host_isa isa_;
};

/// Runs summarize_chunks on the CPU: the same sums in the same order.
template <class Inputs, class Stage>
status summarize_on_host(host_executor const& exec, summarize_chunks<Inputs, Stage> const& body, host_isa isa = best_host_isa()) {
  using element = typename Inputs::element;
  exec.for_each(body.blocks(), Stage::chunk * sizeof(element const*), [&](index_t block, std::byte* scratch) {
    auto const t = body.task_at(block);
    if (t.begin >= t.end) return;
    auto** const row = reinterpret_cast<element const**>(scratch);
    for (index_t key = t.begin; key < t.end; ++key) row[key - t.begin] = body.in.kv.key(t.s, t.b, t.head, key);
    using rows = simd::summarize_rows<element, typename Stage::rule_type>;
    simd::run_on(isa, rows{row, body.to.at(t.b, t.head, t.chunk), static_cast<int>(t.end - t.begin), body.in.shape.key_dim});
  });
  return {};
}

/// Runs a stage on the CPU in the memory of its portable body. Few tasks are cut into ranges of candidates, so that all threads scan;
/// scores of a candidate do not depend on how.
template <class Inputs, class Stage>
status scan_on_host(host_executor const& exec, scan_stage<Inputs, Stage> const& body, host_isa isa = best_host_isa()) {
  using chooser = typename scan_stage<Inputs, Stage>::chooser;
  auto const& args = body.args;
  host_scan<Inputs, Stage> const scan{args, isa};
  constexpr index_t least = 256;  // candidates of a range
  for (index_t first = 0; first < args.tasks(); first += body.workers) {
    index_t const tasks = min(body.workers, args.tasks() - first);
    index_t const wanted = max<index_t>(ceil_div<index_t>(4 * exec.threads(), tasks), 1);
    index_t const ranges = clamp<index_t>(wanted, 1, max<index_t>(body.most / least, 1));
    exec.for_each(tasks * ranges, scan.scratch_bytes(), [&](index_t i, std::byte* scratch) {
      auto const t = args.task_at(first + i / ranges);
      if (!t.scanned || args.keeps_all(t)) return;
      index_t const each = ceil_div(t.offered.count, ranges), begin = min(i % ranges * each, t.offered.count);
      scan(t, begin, min(begin + each, t.offered.count), body.scores + i / ranges * body.most, scratch);
    });
    exec.for_each(tasks, chooser::scratch_bytes, [&](index_t i, std::byte* scratch) {
      auto const t = args.task_at(first + i);
      if (!t.scanned) return;
      serial_team team{scratch};
      if (args.keeps_all(t)) return args.publish(team, t, nullptr, t.offered.count);
      chooser const choose{args.stage.chooser, args.in.logits, {body.scores + i * body.most, t.offered.count}, args.stage.keep_chunks()};
      std::int32_t* const chosen = body.chosen + i * body.most;
      args.publish(team, t, chosen, choose(team, scratch, chosen));
    });
  }
  return {};
}

}  // namespace lacuna
