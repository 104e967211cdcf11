#pragma once
#include <lacuna/core/softmax_state.hpp>
#include <lacuna/kernels/attend_args.hpp>
#include <lacuna/kernels/host/few_rows.hpp>
#include <lacuna/kernels/host/host_logits.hpp>
#include <lacuna/kernels/host/host_units.hpp>
#include <lacuna/kernels/host/key_pieces.hpp>
#include <lacuna/kernels/host/turned_rows.hpp>

namespace lacuna {

/// Attention of few query rows on the CPU: same results as attend_row, at the speed at which keys and values arrive. A task is the rows
/// of one tile, one part of its list, and the heads of `joined` units where all heads have one list: rows of neighbouring heads are
/// neighbours in memory. Results do not depend on `joined`.
template <class Args>
struct attend_decode {
  using element = typename Args::element;
  Args args;
  attend_parts parts;
  host_isa isa;
  int joined = 1;

  static constexpr int most_rows = 16;  // of a unit, a multiple of 4: more make tiles worthwhile
  static constexpr int most_joined = 8;

  index_t tasks() const { return args.shape.batch * groups() * args.index.tiles * parts.splits; }

  /// Joins units as long as every thread has a few tasks.
  static attend_decode balanced(Args const& args, attend_parts const& parts, host_isa isa, int threads) {
    attend_decode body{args, parts, isa};
    if (args.index.heads == 1) body.joined = min(most_joined, body.units().count);
    while (body.joined > 1 && body.tasks() < 4 * threads) --body.joined;
    return body;
  }

  std::size_t scratch_bytes() const {
    detail::carver count{nullptr};
    lay_out(count);
    return count.bytes();
  }

  void operator()(index_t task, std::byte* scratch) const {
    row_task t;
    t.split = static_cast<int>(task % parts.splits);
    index_t const rest = task / parts.splits;
    t.tile = rest % args.index.tiles;
    int const first = static_cast<int>(rest / args.index.tiles % groups()) * joined;
    t.units = min(joined, units().count - first);
    t.group = units().group, t.head = first * t.group;
    t.b = rest / args.index.tiles / groups();
    t.s = sequence_at(args.lengths, args.shape, t.b);
    t.rows = static_cast<int>(args.index.rows_of(t.s, t.tile)) * t.group;
    if (t.rows == 0) return;
    int const list = args.list_of(t.head);
    t.rule = args.index.rules[args.index.head_at(t.b, list)];
    detail::carver block{scratch};
    memory m = lay_out(block);
    host_logits const logits{args.logits};
    index_row const row = args.index.row(t.s, t.b, list, t.tile);
    if constexpr (Args::turns_on_read) t.listed = attended_list::of(row, t.s);
    for (int u = 0; u < t.units; ++u) begin(t, logits, u, m.unit[u]);

    span const range = parts.splits == 1 ? whole_list : parts.part(list_keys(row), t.split);
    for_each_piece(row, range, [&](key_piece const& piece) { add(t, logits, m, piece); });
    absorb(t, logits, m);
    for (int u = 0; u < t.units; ++u)
      for (int r = 0; r < t.rows; ++r) store(t, logits, u, m.unit[u], r);
  }

 private:
  static constexpr int variants = Args::turns_on_read ? attend_rope::most_variants : 1;

  struct row_task {
    index_t b, tile;
    sequence s;
    int units, head, group;  // first query head, heads of a unit
    int rows, split;         // rows of a unit
    head_rule rule;
    attended_list listed;
  };

  struct unit_state {
    float *q[variants], *o, *max, *sum, *keep;
  };

  /// Keys that wait for their products, and the states of the units' rows.
  struct memory {
    unit_state unit[most_joined];
    float *s, *s_far, *turned;
    index_t turn[variants][Args::turns_on_read ? simd::few_keys : 1];
    element const *k[simd::few_keys], *v[simd::few_keys], *next[simd::few_keys];
    std::int32_t key[simd::few_keys];
    std::uint64_t members[simd::few_keys];
    int held = 0;
    bool masked = false;
  };

  host_units units() const { return host_units{args}; }
  int groups() const { return ceil_div(units().count, joined); }

  memory lay_out(detail::carver& block) const {
    memory m;
    m.s = block.take<float>(most_rows * simd::few_keys);
    m.s_far = block.take<float>(variants > 1 ? most_rows * simd::few_keys : 0);
    m.turned = block.take<float>(variants > 1 ? simd::few_keys * args.shape.key_dim : 0);
    for (int u = 0; u < joined; ++u) {
      unit_state& x = m.unit[u];
      for (float*& q : x.q) q = block.take<float>(most_rows * args.shape.key_dim);
      x.o = block.take<float>(most_rows * args.shape.value_dim);
      x.max = block.take<float>(most_rows), x.sum = block.take<float>(most_rows), x.keep = block.take<float>(most_rows);
    }
    return m;
  }

  int token_of(row_task const& t, int r) const { return r / t.group; }
  int head_of(row_task const& t, int unit, int r) const { return t.head + unit * t.group + r % t.group; }
  int kv_head_of(row_task const& t, int unit) const { return args.shape.kv_head(t.head + unit * t.group); }
  index_t query_of(row_task const& t, int r) const { return t.tile * args.index.tile_rows + token_of(t, r); }
  index_t position_of(row_task const& t, int r) const { return t.s.position(query_of(t, r)); }

  void begin(row_task const& t, host_logits const& logits, int unit, unit_state const& x) const {
    for (int r = 0; r < t.rows; ++r) {
      element const* const q = args.q.row(t.b, t.s.first_query + query_of(t, r), head_of(t, unit, r));
      begin_query(t, q, position_of(t, r), logits, r, x);
      for (int d = 0; d < args.shape.value_dim; ++d) x.o[r * args.shape.value_dim + d] = 0;
      x.max[r] = -infinity, x.sum[r] = 0;
    }
  }

  /// A query as its keys will meet it, one row for each variant.
  void begin_query([[maybe_unused]] row_task const& t, element const* q, [[maybe_unused]] index_t position, host_logits const& logits,
                   int r, unit_state const& x) const {
    int const dim = args.shape.key_dim;
    if constexpr (Args::turns_on_read)
      if (args.rope.turns()) {
        for (int v = 0; v < args.rope.variants(); ++v) {
          index_t const at = args.rope.query_turn(v, position, t.listed);
          simd::run_on(isa, simd::gather_turned_rows<element>{&q, &at, x.q[v] + r * dim, 1, dim, args.rope.table});
          for (int d = 0; d < dim; ++d) x.q[v][r * dim + d] *= logits.query;
        }
        return;
      }
    for (int d = 0; d < dim; ++d) x.q[0][r * dim + d] = simd::widen(q[d]) * logits.query;
  }

  void add(row_task const& t, host_logits const& logits, memory& m, key_piece const& piece) const {
    for (index_t at = piece.begin; at < piece.end;) {
      int const take = static_cast<int>(min<index_t>(piece.end - at, simd::few_keys - m.held));
      m.masked |= hides(t, at, at + take, piece.members);
      for (int j = 0; j < take; ++j, ++m.held, ++at) {
        m.key[m.held] = static_cast<std::int32_t>(at), m.members[m.held] = piece.members;
        if constexpr (Args::turns_on_read)
          for (int v = 0; v < args.rope.variants(); ++v)
            m.turn[v][m.held] = args.rope.key_turn(v, at, piece.rank + at - piece.begin, t.listed);
      }
      if (m.held == simd::few_keys) absorb(t, logits, m, at, static_cast<int>(min<index_t>(piece.end - at, simd::few_keys)));
    }
  }

  bool hides(row_task const& t, index_t begin, index_t end, std::uint64_t members) const {
    index_t const first = position_of(t, 0), last = position_of(t, t.rows - 1);
    std::uint64_t const tokens = (std::uint64_t{2} << token_of(t, t.rows - 1)) - 1;
    if ((args.index.causal && end - 1 > first) || (members & tokens) != tokens) return true;
    if (args.tree && end > t.s.keys - 64) return true;
    for (int h = 0; h < t.units * t.group; ++h)
      if (!args.mask.sees_all(t.rule, t.head + h, first, last, begin, end)) return true;
    return false;
  }

  /// Rows of `count` keys that follow each other or are those held.
  void find_keys(row_task const& t, int unit, index_t first, int count, element const** row) const {
    for (int j = 0; j < count; ++j) row[j] = args.kv.key(t.s, t.b, kv_head_of(t, unit), first + j);
  }
  void find_keys(row_task const& t, int unit, memory const& m, element const** row) const {
    for (int j = 0; j < m.held; ++j) row[j] = args.kv.key(t.s, t.b, kv_head_of(t, unit), m.key[j]);
  }

  /// Online softmax over the keys held, unit after unit; then none are. `coming` keys from slot `next` on will be held next.
  void absorb(row_task const& t, host_logits const& logits, memory& m, index_t next = 0, int coming = 0) const {
    if (m.held == 0) return;
    for (int u = 0; u < t.units; ++u) {
      if (u == 0)
        find_keys(t, u, m, m.k);
      else
        for (int j = 0; j < m.held; ++j) m.k[j] = m.next[j];
      for (int j = 0; j < m.held; ++j) m.v[j] = args.kv.value(t.s, t.b, kv_head_of(t, u), m.key[j]);
      for (int j = m.held; j < round_up(m.held, 4); ++j) m.k[j] = m.k[j - 1];
      int following = m.held;
      if (u + 1 < t.units)
        find_keys(t, u + 1, m, m.next);
      else
        find_keys(t, 0, next, following = coming, m.next);
      absorb(t, logits, u, m, following);
    }
    m.held = 0, m.masked = false;
  }

  void absorb(row_task const& t, host_logits const& logits, int unit, memory const& m, int following) const {
    auto const& shape = args.shape;
    unit_state const& x = m.unit[unit];
    if (args.rope.turns())
      score_turned(t, x, m);
    else
      simd::run_on(isa, simd::few_scores<element>{x.q[0], m.k, m.s, t.rows, m.held, shape.key_dim, {m.v, m.held, shape.value_dim}});
    if (logits.cap > 0)
      for (int r = 0; r < t.rows; ++r)
        simd::run_on(isa, simd::soft_cap_panel{m.s + r * simd::few_keys, round_up(m.held, 16), logits.cap, logits.cap_scale});
    if (m.masked) mask(t, unit, m);
    simd::run_on(isa, simd::few_softmax{m.s, t.rows, m.held, logits.factor(), x.max, x.sum, x.keep});
    if (m.masked)
      add_guarded(t, x, m);
    else
      simd::run_on(isa,
                   simd::few_values<element>{m.s, m.v, x.keep, x.o, t.rows, m.held, shape.value_dim, {m.next, following, shape.key_dim}});
  }

  /// Products with keys that turn on the way. Where a row meets a key as its second variant, that product counts.
  void score_turned([[maybe_unused]] row_task const& t, [[maybe_unused]] unit_state const& x, [[maybe_unused]] memory const& m) const {
    if constexpr (Args::turns_on_read) {
      int const dim = args.shape.key_dim;
      float const* row[simd::few_keys];
      for (int j = 0; j < round_up(m.held, 4); ++j) row[j] = m.turned + min(j, m.held - 1) * dim;
      for (int v = 0; v < args.rope.variants(); ++v) {
        float* const s = v == 0 ? m.s : m.s_far;
        simd::run_on(isa, simd::gather_turned_rows<element>{m.k, m.turn[v], m.turned, m.held, dim, args.rope.table});
        simd::run_on(isa, simd::few_scores<float>{x.q[v], row, s, t.rows, m.held, dim, {}});
      }
      for (int r = 0; args.rope.variants() > 1 && r < t.rows; ++r)
        for (int j = 0; j < m.held; ++j) {
          int const at = r * simd::few_keys + j;
          if (args.rope.variant(position_of(t, r), m.key[j])) m.s[at] = m.s_far[at];
        }
    }
  }

  void mask(row_task const& t, int unit, memory const& m) const {
    for (int r = 0; r < t.rows; ++r) {
      index_t const position = position_of(t, r);
      for (int j = 0; j < m.held; ++j) {
        bool const seen = !(args.index.causal && m.key[j] > position) && (m.members[j] >> token_of(t, r) & 1) &&
                          args.mask.visible(t.rule, head_of(t, unit, r), position, m.key[j]) &&
                          args.tree.visible(t.s, t.b, query_of(t, r), m.key[j]);
        if (!seen) m.s[r * simd::few_keys + j] = -infinity;
      }
    }
  }

  /// Where some rows do not see some keys, a row's value enters only where its weight is not 0: 0 * NaN must not.
  void add_guarded(row_task const& t, unit_state const& x, memory const& m) const {
    int const dim = args.shape.value_dim;
    for (int r = 0; r < t.rows; ++r) {
      float* const o = x.o + r * dim;
      for (int d = 0; d < dim; ++d) o[d] *= x.keep[r];
      for (int j = 0; j < m.held; ++j) {
        float const weight = m.s[r * simd::few_keys + j];
        if (weight == 0) continue;
        for (int d = 0; d < dim; ++d) o[d] += weight * simd::widen(m.v[j][d]);
      }
    }
  }

  void store(row_task const& t, host_logits const& logits, int unit, unit_state const& x, int r) const {
    int const dim = args.shape.value_dim, head = head_of(t, unit, r);
    softmax_state state{x.max[r] * logits.unit, x.sum[r]};
    float const kept = parts.splits == 1 && args.sink_logits ? state.absorb(args.sink_logits[head]) : 1;
    float const norm = state.sum > 0 ? kept / state.sum : 0;
    if (parts.splits == 1) {
      index_t const at = t.s.first_query + query_of(t, r);
      element* const out = args.out.row(t.b, at, head);
      for (int d = 0; d < dim; ++d) out[d] = from_float<element>(x.o[r * dim + d] * norm);
      if (args.lse) args.lse(t.b, at, head) = state.lse();
      return;
    }
    index_t const part = ((t.b * args.shape.query_heads + head) * args.shape.queries + query_of(t, r)) * parts.splits + t.split;
    for (int d = 0; d < dim; ++d) parts.out[part * dim + d] = x.o[r * dim + d] * norm;
    parts.lse[part] = state.lse();
  }
};

}  // namespace lacuna
