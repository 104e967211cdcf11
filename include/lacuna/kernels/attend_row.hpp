#pragma once
#include <lacuna/core/softmax_state.hpp>
#include <lacuna/kernels/attend_args.hpp>
#include <lacuna/rope/rotate.hpp>

namespace lacuna {

/// Attention of one query row over the part of its list that a split names: the portable body, right for every shape and on every
/// team. Block ((b * query heads + h) * queries + i) * splits + s. An empty row gives output 0 and LSE -inf. Rows outside the list
/// are never read. With one split the sink logit is added here, otherwise by merge_rows.
template <class Args>
struct attend_row {
  using element = typename Args::element;
  Args args;
  attend_parts parts;

  static constexpr int tile = 64;  // keys whose logits are in scratch at a time

  LACUNA_HD index_t blocks() const { return args.shape.batch * args.shape.query_heads * args.shape.queries * parts.splits; }
  LACUNA_HD std::size_t scratch_bytes() const {
    std::size_t const turned = Args::turns_on_read ? variants * args.shape.key_dim * sizeof(float) + tile * sizeof(std::uint32_t) : 0;
    return (tile + args.shape.value_dim) * sizeof(float) + tile * sizeof(std::int32_t) + turned;
  }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
    row_task t;
    t.split = static_cast<int>(block % parts.splits), t.row = block / parts.splits;
    t.i = t.row % args.shape.queries, t.head = static_cast<int>(t.row / args.shape.queries % args.shape.query_heads);
    t.b = t.row / args.shape.queries / args.shape.query_heads;
    t.s = sequence_at(args.lengths, args.shape, t.b);
    if (t.i >= t.s.queries) return;
    t.position = t.s.position(t.i);
    t.rule = args.index.rules[args.index.head_at(t.b, args.list_of(t.head))];

    gathered g;
    g.weight = reinterpret_cast<float*>(team.scratch());
    g.acc = g.weight + tile;
    g.slot = reinterpret_cast<std::int32_t*>(g.acc + args.shape.value_dim);
    g.turn = reinterpret_cast<std::uint32_t*>(g.slot + tile), g.q = reinterpret_cast<float*>(g.turn + tile);
    for (int d = team.rank(); d < args.shape.value_dim; d += team.size()) g.acc[d] = 0;
    walk(team, t, g);
    store(team, t, g);
  }

 private:
  static constexpr int variants = attend_rope::most_variants;

  struct row_task {
    index_t b, i, row, position;
    int head, split;
    sequence s;
    head_rule rule;
  };

  /// Keys waiting for their products, and what came of the keys before them. Every member keeps its own counts.
  struct gathered {
    float *weight, *acc, *q;  // q: turned, a row for each variant
    std::int32_t* slot;
    std::uint32_t* turn;  // position that the key turns to, times variants, plus the variant
    int held = 0;
    softmax_state state;
  };

  /// Every member walks the list alike and gathers the same slots, so that tiles fill up across short spans.
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void walk(Team& team, row_task const& t, gathered& g) const {
    index_row const row = args.index.row(t.s, t.b, args.list_of(t.head), t.i / args.index.tile_rows);
    int const token = static_cast<int>(t.i % args.index.tile_rows);
    span const range = parts.splits == 1 ? span{0, max_keys} : parts.part(count_keys(row), t.split);
    attended_list list;
    if constexpr (Args::turns_on_read) list = attended_list::of(row, t.s), turn_query(team, t, list, g);
    index_t passed = 0;  // keys of the list walked so far
    for (int e = 0; e < row.span_count() && passed < range.end; ++e) {
      span const keys = row.span_at(e);
      index_t const from = max<index_t>(keys.begin, keys.begin - passed + range.begin);
      index_t const to = min<index_t>(keys.end, keys.begin - passed + range.end);
      index_t const rank = passed - keys.begin;  // of key 0, were it in this span
      passed += keys.size();
      if (!(row.members(e) >> (token & 63) & 1)) continue;
      for (index_t key = from; key < to; ++key) visit(team, t, list, key, rank + key, g);
    }
    for (int c = 0; c < row.column_count && passed < range.end; ++c)
      if (row.reads_column(c) && passed++ >= range.begin) visit(team, t, list, row.columns[c], passed - 1, g);
    if (g.held > 0) absorb(team, t, g);
  }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void visit(Team& team, row_task const& t, attended_list const& list, index_t key, index_t rank, gathered& g) const {
    if (args.index.causal && key > t.position) return;
    if (!args.mask.visible(t.rule, t.head, t.position, key)) return;
    if (!args.tree.visible(t.s, t.b, t.i, key)) return;
    if (team.rank() == 0) g.slot[g.held] = static_cast<std::int32_t>(key);
    if constexpr (Args::turns_on_read) {
      int const v = args.rope.variant(t.position, key);
      if (team.rank() == 0) g.turn[g.held] = static_cast<std::uint32_t>(args.rope.key_turn(v, key, rank, list) * variants + v);
    }
    if (++g.held == tile) absorb(team, t, g);
  }

  /// The row's query as its keys will meet it. Complete after the next sync().
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void turn_query(Team& team, row_task const& t, attended_list const& list, gathered const& g) const {
    element const* const q = args.q.row(t.b, t.s.first_query + t.i, t.head);
    int const dim = args.shape.key_dim;
    for (int v = 0; args.rope.turns() && v < args.rope.variants(); ++v)
      rotate_row(team, args.rope.table, args.rope.query_turn(v, t.position, list), q, dim, g.q + v * dim);
  }

  LACUNA_HD float product(element const* q, element const* k, gathered const& g, int j) const {
    int const dim = args.shape.key_dim;
    if constexpr (Args::turns_on_read)
      if (args.rope.turns()) return rotated_dot(args.rope.table, g.turn[j] / variants, g.q + g.turn[j] % variants * dim, k, dim);
    float dot = 0;
    for (int d = 0; d < dim; ++d) dot += to_float(q[d]) * to_float(k[d]);
    return dot;
  }

  static constexpr std::int32_t max_keys = 0x7fffffff;

  LACUNA_HD static index_t count_keys(index_row const& row) {
    index_t sum = row.span_keys();
    for (int c = 0; c < row.column_count; ++c) sum += row.reads_column(c);
    return sum;
  }

  /// Online softmax over the keys held: rescales what came before, adds them, forgets them.
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void absorb(Team& team, row_task const& t, gathered& g) const {
    team.sync();  // slots are complete
    int const kv_head = args.shape.kv_head(t.head);
    element const* const q = args.q.row(t.b, t.s.first_query + t.i, t.head);
    for (int j = team.rank(); j < g.held; j += team.size()) {
      element const* const k = args.kv.key(t.s, t.b, kv_head, g.slot[j]);
      g.weight[j] = args.logits(product(q, k, g, j));
    }
    team.sync();  // logits are complete
    float peak = g.state.max;
    for (int j = 0; j < g.held; ++j) peak = max(peak, g.weight[j]);
    float const keep = g.state.max == -infinity ? 0 : std::exp(g.state.max - peak);
    if (peak == -infinity) g.held = 0;  // products that overflowed downwards weigh nothing
    for (int d = team.rank(); d < args.shape.value_dim; d += team.size()) {
      float sum = g.acc[d] * keep;
      for (int j = 0; j < g.held; ++j) sum += std::exp(g.weight[j] - peak) * to_float(args.kv.value(t.s, t.b, kv_head, g.slot[j])[d]);
      g.acc[d] = sum;
    }
    float sum = g.state.sum * keep;
    for (int j = 0; j < g.held; ++j) sum += std::exp(g.weight[j] - peak);
    g.state = {peak, sum}, g.held = 0;
    team.sync();  // everyone has read weights and slots
  }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void store(Team& team, row_task const& t, gathered const& g) const {
    softmax_state state = g.state;
    float kept = 1;
    if (parts.splits == 1 && args.sink_logits) kept = state.absorb(args.sink_logits[t.head]);
    float const norm = state.sum > 0 ? kept / state.sum : 0;
    if (parts.splits == 1) {
      element* const out = args.out.row(t.b, t.s.first_query + t.i, t.head);
      for (int d = team.rank(); d < args.shape.value_dim; d += team.size()) out[d] = from_float<element>(g.acc[d] * norm);
      if (args.lse && team.rank() == 0) args.lse(t.b, t.s.first_query + t.i, t.head) = state.lse();
      return;
    }
    index_t const part = t.row * parts.splits + t.split;
    for (int d = team.rank(); d < args.shape.value_dim; d += team.size()) parts.out[part * args.shape.value_dim + d] = g.acc[d] * norm;
    if (team.rank() == 0) parts.lse[part] = state.lse();
  }
};

/// Joins the parts of each row in ascending order and adds the sink logit. Block (b * query heads + h) * queries + i.
template <class Args>
struct merge_rows {
  using element = typename Args::element;
  Args args;
  attend_parts parts;

  LACUNA_HD index_t blocks() const { return args.shape.batch * args.shape.query_heads * args.shape.queries; }
  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t row) const {
    index_t const i = row % args.shape.queries, b = row / args.shape.queries / args.shape.query_heads;
    int const head = static_cast<int>(row / args.shape.queries % args.shape.query_heads);
    sequence const s = sequence_at(args.lengths, args.shape, b);
    if (i >= s.queries) return;
    float const* const lse = parts.lse + row * parts.splits;
    float const* const part = parts.out + row * parts.splits * args.shape.value_dim;
    float peak = args.sink_logits ? args.sink_logits[head] : -infinity;
    for (int p = 0; p < parts.splits; ++p) peak = max(peak, lse[p]);
    float sum = peak > -infinity && args.sink_logits ? std::exp(args.sink_logits[head] - peak) : 0;
    for (int p = 0; p < parts.splits; ++p) sum += peak > -infinity ? std::exp(lse[p] - peak) : 0;

    element* const out = args.out.row(b, s.first_query + i, head);
    for (int d = team.rank(); d < args.shape.value_dim; d += team.size()) {
      float acc = 0;
      for (int p = 0; p < parts.splits; ++p)
        if (lse[p] > -infinity) acc += std::exp(lse[p] - peak) * part[index_t{p} * args.shape.value_dim + d];
      out[d] = from_float<element>(sum > 0 ? acc / sum : 0);
    }
    if (args.lse && team.rank() == 0) args.lse(b, s.first_query + i, head) = sum > 0 ? peak + std::log(sum) : -infinity;
  }
};

}  // namespace lacuna
