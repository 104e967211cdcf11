#pragma once
#include <lacuna/core/softmax_state.hpp>
#include <lacuna/kernels/host/host_logits.hpp>
#include <lacuna/kernels/host/key_block.hpp>

#include <concepts>

namespace lacuna {

/// Heads whose rows stand side by side because they share a list and a KV head, or single heads where every query head has a list.
struct host_units {
  int count, group;

  template <class Args>
  explicit host_units(Args const& args) {
    bool const shared = args.index.heads <= args.shape.kv_heads;
    count = shared ? args.shape.kv_heads : args.shape.query_heads;
    group = args.shape.query_heads / count;
  }
};

/// Attention of tiles of query rows on the CPU: same results as attend_row. A task is up to `chunk` rows, token by token and head by
/// head within a token, of one tile; it reads the tile's list once, in blocks, for all of its panels. No task depends on another.
template <class Args>
struct attend_tiles {
  using element = typename Args::element;
  using block_type = key_block<decltype(Args::kv)>;
  Args args;
  host_isa isa;

  static constexpr int chunk = 512;  // rows: Q and O of head size 128 are 512 KB of L2
  static constexpr int most_panels = chunk / simd::most_panel_rows;

  index_t tasks() const { return args.index.tiles * args.shape.batch * units().count * chunks(); }

  std::size_t scratch_bytes() const {
    detail::carver count{nullptr};
    lay_out(count);
    return count.bytes();
  }

  /// Late tiles come first: under causality they are the long ones.
  void operator()(index_t task, std::byte* scratch) const {
    tile_task t;
    int const part = static_cast<int>(task % chunks());
    index_t const rest = task / chunks();
    int const unit = static_cast<int>(rest % units().count);
    t.b = rest / units().count % args.shape.batch;
    t.tile = args.index.tiles - 1 - rest / units().count / args.shape.batch;
    t.s = sequence_at(args.lengths, args.shape, t.b);
    t.group = units().group, t.head = unit * t.group, t.first_row = part * chunk;
    t.rows = static_cast<int>(clamp<index_t>(args.index.rows_of(t.s, t.tile) * t.group - t.first_row, 0, chunk));
    if (t.rows > 0) run(t, scratch);
  }

 private:
  struct tile_task {
    index_t b, tile;
    sequence s;
    int head, group;      // first query head, heads per token
    int first_row, rows;  // of the tile
    head_rule rule;
  };

  /// Rows that are computed together. A padding lane repeats the last row's position and has a query of zeros.
  struct panel {
    float *q, *o, *max, *sum, *keep;
    std::int32_t *position, *token;
    int first_row, rows, width;
    std::uint64_t tokens;  // bits of the tokens in it
  };

  struct memory {
    float *s, *k, *v;
    panel panels[most_panels];
  };

  host_units units() const { return host_units{args}; }
  index_t tile_rows() const { return index_t{args.index.tile_rows} * units().group; }
  index_t chunks() const { return ceil_div<index_t>(tile_rows(), chunk); }

  memory lay_out(detail::carver& block) const {
    memory m{};
    int const rows = static_cast<int>(min<index_t>(tile_rows(), chunk)), width = simd::panel_width(min(rows, simd::most_panel_rows));
    m.s = block.take<float>(block_type::most * width);
    m.k = block.take<float>(block_type::copy_floats(args.shape.key_dim));
    m.v = block.take<float>(block_type::copy_floats(args.shape.value_dim));
    for (int p = 0; p * simd::most_panel_rows < rows; ++p) {
      panel& x = m.panels[p];
      x.q = block.take<float>(index_t{width} * args.shape.key_dim);
      x.o = block.take<float>(index_t{width} * args.shape.value_dim);
      x.max = block.take<float>(width), x.sum = block.take<float>(width), x.keep = block.take<float>(width);
      x.position = block.take<std::int32_t>(width), x.token = block.take<std::int32_t>(width);
    }
    return m;
  }

  void run(tile_task t, std::byte* scratch) const {
    detail::carver block{scratch};
    memory m = lay_out(block);
    int const list = args.list_of(t.head);
    t.rule = args.index.rules[args.index.head_at(t.b, list)];
    host_logits const logits{args.logits};
    int panels = 0;
    for (int first = 0; first < t.rows; first += simd::most_panel_rows) begin(t, first, logits, m.panels[panels++]);

    block_type keys{args.kv, t.s, t.b, args.shape.kv_head(t.head), args.shape, isa, m.k, m.v};
    auto const absorb_all = [&] {
      for (int p = 0; p < panels; ++p) absorb(t, logits, keys, m.s, m.panels[p]);
    };
    for_each_piece(args.index.row(t.s, t.b, list, t.tile), whole_list, [&](key_piece const& piece) { keys.add(piece, absorb_all); });
    keys.flush(absorb_all);
    for (int p = 0; p < panels; ++p) store(t, logits, m.panels[p]);
  }

  index_t token_of(tile_task const& t, int row) const { return (t.first_row + row) / t.group; }
  int head_of(tile_task const& t, int row) const { return t.head + (t.first_row + row) % t.group; }
  index_t query_of(tile_task const& t, int row) const { return t.tile * args.index.tile_rows + token_of(t, row); }

  void begin(tile_task const& t, int first, host_logits const& logits, panel& x) const {
    x.first_row = first, x.rows = min(t.rows - first, simd::most_panel_rows), x.width = simd::panel_width(x.rows), x.tokens = 0;
    for (int r = 0; r < x.width; ++r) {
      int const row = first + min(r, x.rows - 1);
      x.position[r] = static_cast<std::int32_t>(t.s.position(query_of(t, row)));
      x.token[r] = static_cast<std::int32_t>(token_of(t, row));
      x.tokens |= std::uint64_t{1} << (x.token[r] & 63);
      x.max[r] = -infinity, x.sum[r] = 0;
      element const* const q = args.q.row(t.b, t.s.first_query + query_of(t, row), head_of(t, row));
      float const factor = r < x.rows ? logits.query : 0;
      for (int d = 0; d < args.shape.key_dim; ++d) x.q[d * x.width + r] = r < x.rows ? simd::widen(q[d]) * factor : 0;
    }
    for (int i = 0; i < args.shape.value_dim * x.width; ++i) x.o[i] = 0;
  }

  /// One block of keys for one panel. Keys past the panel's last position end the block early.
  void absorb(tile_task const& t, host_logits const& logits, block_type const& keys, float* s, panel const& x) const {
    int count = keys.count();
    if (args.index.causal)
      while (count > 0 && keys.keys()[count - 1] > x.position[x.rows - 1]) --count;
    if (count == 0) return;
    simd::run_on(isa, simd::score_panel{x.q, keys.k(0, count), s, x.width, args.shape.key_dim});
    if (logits.cap > 0) simd::run_on(isa, simd::soft_cap_panel{s, count * x.width, logits.cap, logits.cap_scale});
    std::uint64_t masked[(block_type::most + 63) / 64] = {};  // segments with a key that some row does not see
    bool any = false;
    for (int i = 0; i < keys.segments() && keys.at(i).first < count; ++i) {
      auto const& part = keys.at(i);
      if (!hides(t, keys, part, x)) continue;
      mask(t, keys, part, min(part.count, count - part.first), s, x);
      masked[i / 64] |= std::uint64_t{1} << i % 64, any = true;
    }
    simd::run_on(isa, simd::softmax_panel{s, count, x.width, logits.factor(), x.max, x.sum, x.keep});
    if (any)
      add_guarded(keys, masked, count, s, x);
    else
      simd::run_on(isa, simd::value_panel{s, keys.v(0, count), x.keep, x.o, x.width, args.shape.value_dim});
  }

  bool hides(tile_task const& t, block_type const& keys, typename block_type::segment const& part, panel const& x) const {
    index_t const begin = keys.keys()[part.first], end = keys.keys()[part.first + part.count - 1] + 1;
    index_t const first = x.position[0], last = x.position[x.rows - 1];
    if (args.index.causal && end - 1 > first) return true;
    if ((part.members & x.tokens) != x.tokens) return true;
    for (int h = 0; h < t.group; ++h)
      if (!args.mask.sees_all(t.rule, t.head + h, first, last, begin, end)) return true;
    return false;
  }

  void mask(tile_task const& t, block_type const& keys, typename block_type::segment const& part, int count, float* s,
            panel const& x) const {
    float* const logit = s + part.first * x.width;
    std::int32_t const* const key = keys.keys() + part.first;
    bool const by_numbers = std::same_as<decltype(Args::mask), by_rule>;
    simd::run_on(isa, simd::mask_panel{logit, key, count, x.width, x.position, x.token, args.index.causal,
                                       by_numbers ? t.rule : head_rule{}, part.members});
    if constexpr (!by_numbers)
      for (int j = 0; j < count; ++j)
        for (int r = 0; r < x.rows; ++r)
          if (!args.mask.visible(t.rule, head_of(t, x.first_row + r), x.position[r], key[j])) logit[j * x.width + r] = -infinity;
  }

  /// Values that only some rows read: 0 * NaN must not reach the others, so rows with an infinity or a NaN are added one by one.
  void add_guarded(block_type const& keys, std::uint64_t const* masked, int count, float* p, panel const& x) const {
    int done = 0;
    float const* keep = x.keep;
    auto const add_until = [&](int end) {
      simd::run_on(isa, simd::value_panel{p + done * x.width, keys.v(done, end - done), keep, x.o, x.width, args.shape.value_dim});
      done = end, keep = nullptr;
    };
    for (int i = 0; i < keys.segments() && keys.at(i).first < count; ++i) {
      if (!(masked[i / 64] >> i % 64 & 1)) continue;
      int const end = min(keys.at(i).first + keys.at(i).count, count);
      for (int j = keys.at(i).first; j < end; ++j) {
        int skip = 0;
        simd::run_on(isa, simd::find_not_finite{keys.v(j, end - j), args.shape.value_dim, &skip});
        j += skip;
        if (j == end) break;
        add_until(j);
        add_row(keys.v(j, 1).data, p + j * x.width, x);
        done = j + 1;
      }
    }
    add_until(count);
  }

  void add_row(float const* value, float const* weight, panel const& x) const {
    for (int d = 0; d < args.shape.value_dim; ++d)
      for (int r = 0; r < x.rows; ++r)
        if (weight[r] != 0) x.o[d * x.width + r] += weight[r] * value[d];
  }

  void store(tile_task const& t, host_logits const& logits, panel const& x) const {
    for (int r = 0; r < x.rows; ++r) {
      int const row = x.first_row + r, head = head_of(t, row);
      index_t const at = t.s.first_query + query_of(t, row);
      softmax_state state{x.max[r] * logits.unit, x.sum[r]};
      float const kept = args.sink_logits ? state.absorb(args.sink_logits[head]) : 1;
      float const norm = state.sum > 0 ? kept / state.sum : 0;
      element* const out = args.out.row(t.b, at, head);
      for (int d = 0; d < args.shape.value_dim; ++d) out[d] = from_float<element>(x.o[d * x.width + r] * norm);
      if (args.lse) args.lse(t.b, at, head) = state.lse();
    }
  }
};

}  // namespace lacuna
