#pragma once
#include <lacuna/core/softmax_state.hpp>
#include <lacuna/kernels/host/host_logits.hpp>
#include <lacuna/kernels/host/host_units.hpp>
#include <lacuna/kernels/host/key_block.hpp>

#include <concepts>

namespace lacuna {

/// Attention of tiles of query rows on the CPU: same results as attend_row. A task is a few neighbouring tiles of one head or group of
/// heads, or a part of one large tile. It reads keys and values once for all of its rows where the tiles' lists have enough in
/// common, since fetching rows costs as much as multiplying them by 64 queries does. No task depends on another.
template <class Args>
struct attend_tiles {
  using element = typename Args::element;
  using block_type = key_block<decltype(Args::kv), decltype(Args::rope)>;
  Args args;
  host_isa isa;

  static constexpr int most_rows = 512;  // of a task: Q and O of head size 128 are 512 KB of L2
  static constexpr int most_panels = most_rows / simd::most_panel_rows;

  index_t tasks() const { return ceil_div<index_t>(args.index.tiles, joined()) * args.shape.batch * units().count * chunks(); }

  std::size_t scratch_bytes() const {
    detail::carver count{nullptr};
    lay_out(count);
    return count.bytes();
  }

  /// Late tiles come first: under causality they are the long ones.
  void operator()(index_t task, std::byte* scratch) const {
    tile_task t;
    t.first_row = task % chunks() * most_rows;
    index_t const rest = task / chunks();
    t.group = units().group, t.head = static_cast<int>(rest % units().count) * t.group;
    t.b = rest / units().count % args.shape.batch;
    t.tile = (ceil_div<index_t>(args.index.tiles, joined()) - 1 - rest / units().count / args.shape.batch) * joined();
    t.s = sequence_at(args.lengths, args.shape, t.b);
    t.list = args.list_of(t.head), t.rule = args.index.rules[args.index.head_at(t.b, t.list)];

    int tiles = 0;
    joined_lists lists;
    for (; tiles < joined() && args.index.rows_of(t.s, t.tile + tiles) > 0; ++tiles) lists.add(row_at(t, tiles));
    if (tiles > 1 && lists.worthwhile()) {
      run(t, tiles, scratch, [&](auto const& visit) { lists.for_each_piece(visit); });
      return;
    }
    for (; tiles > 0; --tiles, ++t.tile) run(t, 1, scratch, [&](auto const& visit) { for_each_piece(row_at(t, 0), whole_list, visit); });
  }

 private:
  static constexpr int variants = Args::turns_on_read ? attend_rope::most_variants : 1;

  struct tile_task {
    index_t b, tile;
    sequence s;
    int list, head, group;  // first query head, heads per token
    index_t first_row;      // of a tile
    head_rule rule;
  };

  /// Rows of one tile that are computed together, token by token and head by head within a token. Padding lanes repeat the last row.
  struct panel {
    float *q[variants], *o, *max, *sum, *keep;
    std::int32_t *position, *token;
    index_t first_row;  // of the tile
    int tile, rows, width;
    std::uint64_t tokens;  // bits of the tokens in it
  };

  struct memory {
    float *s, *s_far, *k, *v, *turned;
    panel panels[most_panels];
  };

  host_units units() const { return host_units{args}; }
  index_t tile_rows() const { return index_t{args.index.tile_rows} * units().group; }
  index_t chunks() const { return ceil_div<index_t>(tile_rows(), most_rows); }
  index_row row_at(tile_task const& t, int i) const { return args.index.row(t.s, t.b, t.list, t.tile + i); }

  /// Tiles of a task: up to 512 rows, but at least 8 tasks a head. A function of the plan's shape, so results do not depend on threads.
  int joined() const {
    if (args.index.members || args.rope.turns()) return 1;
    return static_cast<int>(clamp<index_t>(min(most_rows / tile_rows(), args.index.tiles / 8), 1, joined_lists::most));
  }

  memory lay_out(detail::carver& block) const {
    memory m{};
    int const rows = static_cast<int>(min<index_t>(tile_rows(), most_rows)), width = simd::panel_width(min(rows, simd::most_panel_rows));
    m.s = block.take<float>(block_type::most * width);
    m.s_far = block.take<float>(variants > 1 ? block_type::most * width : 0);
    m.turned = block.take<float>(variants > 1 ? index_t{width} * args.shape.key_dim : 0);
    m.k = block.take<float>(block_type::copy_floats(args.shape.key_dim) * variants);
    m.v = block.take<float>(block_type::copy_floats(args.shape.value_dim));
    for (int p = 0; p < joined() * ceil_div(rows, simd::most_panel_rows); ++p) {
      panel& x = m.panels[p];
      for (float*& q : x.q) q = block.take<float>(index_t{width} * args.shape.key_dim);
      x.o = block.take<float>(index_t{width} * args.shape.value_dim);
      x.max = block.take<float>(width), x.sum = block.take<float>(width), x.keep = block.take<float>(width);
      x.position = block.take<std::int32_t>(width), x.token = block.take<std::int32_t>(width);
    }
    return m;
  }

  template <class Walk>
  void run(tile_task const& t, int tiles, std::byte* scratch, Walk const& walk) const {
    detail::carver block{scratch};
    memory m = lay_out(block);
    host_logits const logits{args.logits};
    int panels = 0;
    for (int i = 0; i < tiles; ++i) {
      index_t const rows = min<index_t>(args.index.rows_of(t.s, t.tile + i) * t.group - t.first_row, most_rows);
      for (index_t at = 0; at < rows; at += simd::most_panel_rows) begin(t, i, at, rows, logits, m, m.panels[panels++]);
    }
    if (panels == 0) return;
    block_type keys{args.kv, t.s, t.b, args.shape.kv_head(t.head), args.shape, isa, m.k, m.v};
    if constexpr (Args::turns_on_read) keys.turn(args.rope, list_at(t, 0));
    auto const absorb_all = [&] {
      for (int p = 0; p < panels; ++p) absorb(t, logits, keys, m, m.panels[p], p == 0);
    };
    walk([&](key_piece const& piece) { keys.add(piece, absorb_all); });
    keys.flush(absorb_all);
    for (int p = 0; p < panels; ++p) store(t, logits, m.panels[p]);
  }

  index_t token_of(tile_task const& t, panel const& x, int r) const { return (x.first_row + r) / t.group; }
  int head_of(tile_task const& t, panel const& x, int r) const { return t.head + static_cast<int>((x.first_row + r) % t.group); }
  index_t query_of(tile_task const& t, panel const& x, int r) const { return (t.tile + x.tile) * args.index.tile_rows + token_of(t, x, r); }

  void begin(tile_task const& t, int tile, index_t at, index_t rows, host_logits const& logits, memory const& m, panel& x) const {
    x.tile = tile, x.first_row = t.first_row + at, x.rows = static_cast<int>(min<index_t>(rows - at, simd::most_panel_rows));
    x.width = simd::panel_width(x.rows), x.tokens = 0;
    element const* q[simd::most_panel_rows];
    for (int r = 0; r < x.width; ++r) {
      int const row = min(r, x.rows - 1);
      x.position[r] = static_cast<std::int32_t>(t.s.position(query_of(t, x, row)));
      x.token[r] = static_cast<std::int32_t>(token_of(t, x, row));
      x.tokens |= std::uint64_t{1} << (x.token[r] & 63);
      x.max[r] = -infinity, x.sum[r] = 0;
      q[r] = args.q.row(t.b, t.s.first_query + query_of(t, x, row), head_of(t, x, row));
    }
    if (args.rope.turns())
      pack_turned(t, q, logits, m, x);
    else
      simd::run_on(isa, simd::pack_rows<element>{q, x.q[0], x.width, args.shape.key_dim, logits.query});
    for (int i = 0; i < args.shape.value_dim * x.width; ++i) x.o[i] = 0;
  }

  attended_list list_at(tile_task const& t, int tile) const { return attended_list::of(row_at(t, tile), t.s); }

  /// Queries as their keys will meet them, one panel for each variant.
  void pack_turned([[maybe_unused]] tile_task const& t, [[maybe_unused]] element const* const* q,
                   [[maybe_unused]] host_logits const& logits, [[maybe_unused]] memory const& m, [[maybe_unused]] panel& x) const {
    if constexpr (Args::turns_on_read) {
      attended_list const list = list_at(t, x.tile);
      int const dim = args.shape.key_dim;
      float const* row[simd::most_panel_rows];
      index_t position[simd::most_panel_rows];
      for (int v = 0; v < args.rope.variants(); ++v) {
        for (int r = 0; r < x.width; ++r) row[r] = m.turned + r * dim, position[r] = args.rope.query_turn(v, x.position[r], list);
        simd::run_on(isa, simd::gather_turned_rows<element>{q, position, m.turned, x.width, dim, args.rope.table});
        simd::run_on(isa, simd::pack_rows<float>{row, x.q[v], x.width, dim, logits.query});
      }
    }
  }

  /// Keys of a block that a panel computes: from the first that is in its list to the last that causality lets it see.
  struct key_range {
    int begin, end;
  };

  key_range range_of(block_type const& keys, panel const& x) const {
    int first = 0, last = keys.segments() - 1;
    while (first <= last && !(keys.at(first).tiles >> x.tile & 1)) ++first;
    while (first < last && !(keys.at(last).tiles >> x.tile & 1)) --last;
    if (first > last) return {0, 0};
    int const begin = keys.at(first).first;
    int end = keys.at(last).first + keys.at(last).count;
    if (args.index.causal)
      while (end > begin && keys.keys()[end - 1] > x.position[x.rows - 1]) --end;
    return {begin, end};
  }

  /// One block of keys for one panel.
  void absorb(tile_task const& t, host_logits const& logits, block_type const& keys, memory const& m, panel const& x, bool first) const {
    float* const s = m.s;
    key_range const range = range_of(keys, x);
    int const count = range.end - range.begin;
    if (count == 0) return;
    simd::coming_rows const none, &next_k = first ? keys.next_k() : none, &next_v = first ? keys.next_v() : none;
    simd::run_on(isa, simd::score_panel{x.q[0], keys.k(range.begin, count), s, x.width, args.shape.key_dim, next_k});
    if constexpr (Args::turns_on_read)
      if (args.rope.variants() > 1) score_far(keys, range, m, x);
    if (logits.cap > 0) simd::run_on(isa, simd::soft_cap_panel{s, count * x.width, logits.cap, logits.cap_scale});
    bool const masked = mask(t, keys, range, s, x);
    simd::run_on(isa, simd::softmax_panel{s, count, x.width, logits.factor(), x.max, x.sum, x.keep});
    simd::value_panel const values{s, keys.v(range.begin, count), x.keep, x.o, x.width, args.shape.value_dim, next_v};
    if (masked)
      add_guarded(values, x);
    else
      simd::run_on(isa, values);
  }

  /// Where a row meets a key as its second variant, that product takes the place of the first one's.
  void score_far(block_type const& keys, key_range const& range, memory const& m, panel const& x) const requires Args::turns_on_read {
    int const count = range.end - range.begin;
    std::int32_t const* const key = keys.keys() + range.begin;
    if (args.rope.variant(x.position[x.rows - 1], key[0]) == 0) return;  // the row and key that lie farthest apart
    simd::run_on(isa, simd::score_panel{x.q[1], keys.k(range.begin, count, 1), m.s_far, x.width, args.shape.key_dim});
    for (int j = 0; j < count; ++j)
      for (int r = 0; r < x.width; ++r)
        if (args.rope.variant(x.position[r], key[j])) m.s[j * x.width + r] = m.s_far[j * x.width + r];
  }

  /// Hides what single rows do not see; false if there was nothing to hide.
  bool mask(tile_task const& t, block_type const& keys, key_range const& range, float* s, panel const& x) const {
    bool any = false;
    for (int i = 0; i < keys.segments(); ++i) {
      auto const& part = keys.at(i);
      int const begin = max(part.first, range.begin), end = min(part.first + part.count, range.end);
      if (begin >= end) continue;
      bool const listed = part.tiles >> x.tile & 1;
      if (listed && !hides(t, keys.keys()[begin], keys.keys()[end - 1] + 1, part.members, x)) continue;
      mask(t, keys.keys() + begin, end - begin, listed ? part.members : 0, s + (begin - range.begin) * x.width, x);
      any = true;
    }
    return any;
  }

  bool hides(tile_task const& t, index_t begin, index_t end, std::uint64_t members, panel const& x) const {
    index_t const first = x.position[0], last = x.position[x.rows - 1];
    if (args.index.causal && end - 1 > first) return true;
    if (args.tree && end > t.s.keys - 64) return true;
    if ((members & x.tokens) != x.tokens) return true;
    for (int h = 0; h < t.group; ++h)
      if (!args.mask.sees_all(t.rule, t.head + h, first, last, begin, end)) return true;
    return false;
  }

  void mask(tile_task const& t, std::int32_t const* key, int count, std::uint64_t members, float* s, panel const& x) const {
    constexpr bool by_numbers = std::same_as<decltype(Args::mask), by_rule>;
    simd::run_on(
        isa, simd::mask_panel{s, key, count, x.width, x.position, x.token, args.index.causal, by_numbers ? t.rule : head_rule{}, members});
    if constexpr (!by_numbers)
      for (int j = 0; j < count; ++j)
        for (int r = 0; r < x.rows; ++r)
          if (!args.mask.visible(t.rule, head_of(t, x, r), x.position[r], key[j])) s[j * x.width + r] = -infinity;
    if (args.tree)
      for (int j = 0; j < count; ++j)
        for (int r = 0; r < x.rows; ++r)
          if (!args.tree.visible(t.s, t.b, query_of(t, x, r), key[j])) s[j * x.width + r] = -infinity;
  }

  /// Adds values of which some are read by some rows only: 0 * NaN must not reach the others, so rows of V with an infinity or a NaN
  /// are added one by one.
  void add_guarded(simd::value_panel const& all, panel const& x) const {
    int const count = all.v.count;
    for (int done = 0;;) {
      int found = 0;
      simd::float_rows const rest{all.v.data + done * all.v.stride, all.v.stride, count - done};
      simd::run_on(isa, simd::find_not_finite{rest, all.dim, &found});
      simd::value_panel part = all;
      part.p += done * x.width, part.v = {rest.data, rest.stride, found};
      if (done > 0) part.keep = nullptr, part.next = {};
      simd::run_on(isa, part);
      done += found;
      if (done == count) return;
      add_row(all.v.data + done * all.v.stride, all.p + done * x.width, x);
      if (++done == count) return;
    }
  }

  void add_row(float const* value, float const* weight, panel const& x) const {
    for (int d = 0; d < args.shape.value_dim; ++d)
      for (int r = 0; r < x.rows; ++r)
        if (weight[r] != 0) x.o[d * x.width + r] += weight[r] * value[d];
  }

  void store(tile_task const& t, host_logits const& logits, panel const& x) const {
    element* row[simd::most_panel_rows];
    for (int r = 0; r < x.rows; ++r) {
      int const head = head_of(t, x, r);
      index_t const at = t.s.first_query + query_of(t, x, r);
      softmax_state state{x.max[r] * logits.unit, x.sum[r]};
      float const kept = args.sink_logits ? state.absorb(args.sink_logits[head]) : 1;
      x.keep[r] = state.sum > 0 ? kept / state.sum : 0;
      row[r] = args.out.row(t.b, at, head);
      if (args.lse) args.lse(t.b, at, head) = state.lse();
    }
    simd::run_on(isa, simd::unpack_rows<element>{x.o, row, x.keep, x.rows, x.width, args.shape.value_dim});
  }
};

}  // namespace lacuna
