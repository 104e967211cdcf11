#pragma once
#include <lacuna/core/softmax_state.hpp>
#include <lacuna/kernels/host/few_rows.hpp>
#include <lacuna/kernels/host/host_logits.hpp>
#include <lacuna/kernels/host/host_units.hpp>
#include <lacuna/kernels/host/key_pieces.hpp>
#include <lacuna/kernels/host/rows.hpp>

namespace lacuna {

/// Attention of few query rows on the CPU: same results as attend_row, at the speed at which keys and values arrive. A task is the rows
/// of one tile and one part of its list: ((b * units + unit) * tiles + tile) * splits + split.
template <class Args>
struct attend_decode {
  using element = typename Args::element;
  Args args;
  attend_parts parts;
  host_isa isa;

  static constexpr int most_rows = 16;  // of a task

  index_t tasks() const { return args.shape.batch * units().count * args.index.tiles * parts.splits; }

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
    t.group = units().group, t.head = static_cast<int>(rest / args.index.tiles % units().count) * t.group;
    t.b = rest / args.index.tiles / units().count;
    t.s = sequence_at(args.lengths, args.shape, t.b);
    t.rows = static_cast<int>(args.index.rows_of(t.s, t.tile)) * t.group;
    if (t.rows == 0) return;
    int const list = args.list_of(t.head);
    t.rule = args.index.rules[args.index.head_at(t.b, list)];
    detail::carver block{scratch};
    memory m = lay_out(block);
    host_logits const logits{args.logits};
    begin(t, logits, m);

    index_row const row = args.index.row(t.s, t.b, list, t.tile);
    span const range = parts.splits == 1 ? whole_list : parts.part(list_keys(row), t.split);
    for_each_piece(row, range, [&](key_piece const& piece) { add(t, logits, m, piece); });
    absorb(t, logits, m, {});
    for (int r = 0; r < t.rows; ++r) store(t, logits, m, r);
  }

 private:
  struct row_task {
    index_t b, tile;
    sequence s;
    int head, group, rows, split;
    head_rule rule;
  };

  /// Rows' state, and the keys that wait for their products.
  struct memory {
    float *q, *o, *s, *max, *sum, *keep;
    element const *k[simd::few_keys], *v[simd::few_keys];
    std::int32_t key[simd::few_keys];
    std::uint64_t members[simd::few_keys];
    int held = 0;
    bool masked = false;
  };

  host_units units() const { return host_units{args}; }

  memory lay_out(detail::carver& block) const {
    memory m;
    m.q = block.take<float>(most_rows * args.shape.key_dim), m.o = block.take<float>(most_rows * args.shape.value_dim);
    m.s = block.take<float>(most_rows * simd::few_keys);
    m.max = block.take<float>(most_rows), m.sum = block.take<float>(most_rows), m.keep = block.take<float>(most_rows);
    return m;
  }

  int token_of(row_task const& t, int r) const { return r / t.group; }
  int head_of(row_task const& t, int r) const { return t.head + r % t.group; }
  index_t query_of(row_task const& t, int r) const { return t.tile * args.index.tile_rows + token_of(t, r); }
  index_t position_of(row_task const& t, int r) const { return t.s.position(query_of(t, r)); }

  void begin(row_task const& t, host_logits const& logits, memory& m) const {
    for (int r = 0; r < t.rows; ++r) {
      element const* const q = args.q.row(t.b, t.s.first_query + query_of(t, r), head_of(t, r));
      for (int d = 0; d < args.shape.key_dim; ++d) m.q[r * args.shape.key_dim + d] = simd::widen(q[d]) * logits.query;
      for (int d = 0; d < args.shape.value_dim; ++d) m.o[r * args.shape.value_dim + d] = 0;
      m.max[r] = -infinity, m.sum[r] = 0;
    }
  }

  void add(row_task const& t, host_logits const& logits, memory& m, key_piece const& piece) const {
    int const kv_head = args.shape.kv_head(t.head);
    index_t const key_stride = args.kv.key_stride(), value_stride = args.kv.value_stride();
    for (index_t at = piece.begin; at < piece.end;) {
      int const take = static_cast<int>(min<index_t>(min(piece.end - at, args.kv.run(at)), simd::few_keys - m.held));
      element const *key = args.kv.key(t.s, t.b, kv_head, at), *value = args.kv.value(t.s, t.b, kv_head, at);
      for (int j = 0; j < take; ++j, ++m.held, key += key_stride, value += value_stride) {
        m.k[m.held] = key, m.v[m.held] = value;
        m.key[m.held] = static_cast<std::int32_t>(at + j), m.members[m.held] = piece.members;
      }
      m.masked |= hides(t, at, at + take, piece.members);
      at += take;
      if (m.held < simd::few_keys) continue;
      simd::coming_rows next;
      if (at < piece.end) {
        constexpr int size = sizeof(element);
        int const count = static_cast<int>(min<index_t>(min(piece.end - at, args.kv.run(at)), simd::few_keys));
        next = {args.kv.key(t.s, t.b, kv_head, at), key_stride * size, count, args.shape.key_dim * size};
      }
      absorb(t, logits, m, next);
    }
  }

  bool hides(row_task const& t, index_t begin, index_t end, std::uint64_t members) const {
    index_t const first = position_of(t, 0), last = position_of(t, t.rows - 1);
    std::uint64_t const tokens = (std::uint64_t{2} << token_of(t, t.rows - 1)) - 1;
    if ((args.index.causal && end - 1 > first) || (members & tokens) != tokens) return true;
    for (int h = 0; h < t.group; ++h)
      if (!args.mask.sees_all(t.rule, t.head + h, first, last, begin, end)) return true;
    return false;
  }

  /// Online softmax over the keys held; then none are.
  void absorb(row_task const& t, host_logits const& logits, memory& m, simd::coming_rows const& next) const {
    if (m.held == 0) return;
    auto const& shape = args.shape;
    simd::run_on(isa, simd::few_scores<element>{m.q, m.k, m.v, m.s, t.rows, m.held, shape.key_dim, shape.value_dim});
    if (logits.cap > 0)
      for (int r = 0; r < t.rows; ++r)
        simd::run_on(isa, simd::soft_cap_panel{m.s + r * simd::few_keys, round_up(m.held, 16), logits.cap, logits.cap_scale});
    if (m.masked) mask(t, m);
    simd::run_on(isa, simd::few_softmax{m.s, t.rows, m.held, logits.factor(), m.max, m.sum, m.keep});
    if (m.masked)
      add_guarded(t, m);
    else
      simd::run_on(isa, simd::few_values<element>{m.s, m.v, m.keep, m.o, t.rows, m.held, shape.value_dim, next});
    m.held = 0, m.masked = false;
  }

  void mask(row_task const& t, memory& m) const {
    for (int r = 0; r < t.rows; ++r) {
      index_t const position = position_of(t, r);
      for (int j = 0; j < m.held; ++j) {
        bool const seen = !(args.index.causal && m.key[j] > position) && (m.members[j] >> token_of(t, r) & 1) &&
                          args.mask.visible(t.rule, head_of(t, r), position, m.key[j]);
        if (!seen) m.s[r * simd::few_keys + j] = -infinity;
      }
    }
  }

  /// Where some rows do not see some keys, a row's value enters only where its weight is not 0: 0 * NaN must not.
  void add_guarded(row_task const& t, memory& m) const {
    int const dim = args.shape.value_dim;
    for (int r = 0; r < t.rows; ++r) {
      float* const o = m.o + r * dim;
      for (int d = 0; d < dim; ++d) o[d] *= m.keep[r];
      for (int j = 0; j < m.held; ++j) {
        float const weight = m.s[r * simd::few_keys + j];
        if (weight == 0) continue;
        for (int d = 0; d < dim; ++d) o[d] += weight * simd::widen(m.v[j][d]);
      }
    }
  }

  void store(row_task const& t, host_logits const& logits, memory const& m, int r) const {
    int const dim = args.shape.value_dim, head = head_of(t, r);
    softmax_state state{m.max[r] * logits.unit, m.sum[r]};
    float const kept = parts.splits == 1 && args.sink_logits ? state.absorb(args.sink_logits[head]) : 1;
    float const norm = state.sum > 0 ? kept / state.sum : 0;
    if (parts.splits == 1) {
      index_t const at = t.s.first_query + query_of(t, r);
      element* const out = args.out.row(t.b, at, head);
      for (int d = 0; d < dim; ++d) out[d] = from_float<element>(m.o[r * dim + d] * norm);
      if (args.lse) args.lse(t.b, at, head) = state.lse();
      return;
    }
    index_t const part = ((t.b * args.shape.query_heads + head) * args.shape.queries + query_of(t, r)) * parts.splits + t.split;
    for (int d = 0; d < dim; ++d) parts.out[part * dim + d] = m.o[r * dim + d] * norm;
    parts.lse[part] = state.lse();
  }
};

}  // namespace lacuna
