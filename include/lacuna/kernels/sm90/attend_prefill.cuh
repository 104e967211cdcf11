#pragma once
#include <lacuna/arch/sm90/mbarrier.cuh>
#include <lacuna/arch/sm90/tensor_map.cuh>
#include <lacuna/arch/sm90/wgmma.cuh>
#include <lacuna/kernels/attend_args.hpp>
#include <lacuna/kernels/sm90/compact_columns.cuh>
#include <lacuna/kernels/sm90/key_tiles.cuh>
#include <lacuna/kernels/tiles/softmax_rows.cuh>

#include <bit>

namespace lacuna::sm90 {

using tiles::cap, tiles::logit_scale, tiles::row_factors, tiles::row_pair, tiles::row_result, tiles::softmax_rows, sm80::pack_pair;

/// Attention of 128 query rows at a time over their lists' keys, on Hopper: a producer warp brings tiles of 128 keys through the copy
/// engine, two consumer warpgroups of 64 rows multiply, and the softmax of one tile runs beside the products of the next.
///
/// Rows are `tokens` query tokens x `group` heads that share a list and a KV head, head fastest. Entries of a list may name the members
/// that read them, `member_tokens` query tokens each: a warpgroup passes over tiles that hold nothing for its rows. Blocks are persistent
/// and take tasks from a counter, the longest rows of a head first; the result does not depend on who takes which.
///
/// Segments of 64 keys land as two panels of 64 columns; segments of 8 keys land with both panels in one box, so that 8-token chunks cost
/// one copy each. Shared memory for Dim 128: Q 32 KB + stages (2) x (K 32 KB + V 32 KB) = 160 KB. Registers of a consumer thread: output
/// 64, logits 64, weights 32, of 232.
///
/// With Columns a list's columns follow its spans as tiles of 128 slots of compact_columns; a tile's membership masks are then bits of
/// slots, the same for every row but for causality and the head's rule.
template <class Args, int Dim, int SegmentKeys = 64, bool Columns = false>
struct attend_prefill {
  static_assert(!Columns || SegmentKeys == 64, "a column tile is two segments of 64 slots");
  using element = typename Args::element;
  using tile = key_tile<SegmentKeys>;
  using segment_type = typename segment_walk<SegmentKeys>::segment;
  static constexpr int rows = 128, half = 64, keys = tile::keys, panels = Dim / 64, stages = 2, tile_slots = 2 * stages;
  static constexpr int max_team_size = 384, consumers = 256;
  static constexpr int producer_registers = Columns ? 56 : 40, consumer_registers = Columns ? 224 : 232;  // 504 for 3 warpgroups
  static constexpr std::uint32_t panel_bytes = keys * 64 * sizeof(element), tile_bytes = panels * panel_bytes;
  static constexpr bool chunked = SegmentKeys == 8;  // both panels of 8 keys side by side
  static constexpr std::uint32_t group_stride = chunked ? panels * 1024 : 1024, panel_stride = chunked ? 1024 : panel_bytes;
  static constexpr int box_panels = chunked ? panels : 1;

  Args args;
  tensor_map q_map, k_map, v_map;
  int group = 1, tokens = rows;     // tokens * group <= rows
  int member_tokens = 1;            // query tokens of one bit of a membership mask
  std::int32_t* counter = nullptr;  // 0 before the launch

  struct no_columns {};
  struct column_source {
    compact_columns<std::remove_const_t<element>> compact;
    tensor_map k_map, v_map;
  };
  std::conditional_t<Columns, column_source, no_columns> columns;

  struct alignas(1024) shared {
    element q[panels][rows * 64];
    element k[stages][panels * keys * 64];
    element v[stages][panels * keys * 64];
    tile tiles[tile_slots];
    mbarrier q_full, q_empty, k_full[stages], k_empty[stages], v_full[stages], v_empty[stages], task_full, task_empty;
    std::int32_t task;
  };

  /// One block's piece of work.
  struct task {
    index_t b, first;       // first query token
    int head;               // first query head
    int count;              // query tokens
    std::int32_t position;  // of the first token
    int first_member;       // tokens of the list's tile before the first one
    sequence s;
  };

  LACUNA_HD std::size_t scratch_bytes() const { return sizeof(shared); }
  LACUNA_HD index_t parts() const { return ceil_div<index_t>(args.index.tile_rows, tokens); }
  LACUNA_HD index_t tiles_per_head() const { return parts() * ceil_div<index_t>(args.shape.queries, args.index.tile_rows); }
  LACUNA_HD index_t heads() const { return args.shape.query_heads / group; }
  LACUNA_HD index_t tasks() const { return args.shape.batch * heads() * tiles_per_head(); }

  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t) const {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    auto& s = *reinterpret_cast<shared*>(team.scratch());
    int warpgroup = threadIdx.x / 128;
    asm volatile("" : "+r"(warpgroup));  // kept in a register rather than computed anew at every use
    if (threadIdx.x == 0) init(s);
    __syncthreads();
    if (warpgroup == 0) {
      give_registers<producer_registers>();
      if (threadIdx.x < 32) produce(s);
    } else {
      take_registers<consumer_registers>();
      consume(s, warpgroup - 1);
    }
#else
    (void)team;
#endif
  }

#ifdef __CUDACC__
 private:
  /// Number of a tile among those of this block: where it is in the rings.
  struct place {
    static_assert(std::has_single_bit(unsigned{stages}), "the count wraps around");
    std::uint32_t tile = 0;
    __device__ int stage() const { return tile % stages; }
    __device__ int slot() const { return tile % tile_slots; }
    __device__ std::uint32_t parity() const { return tile / stages % 2; }
    __device__ place next() const { return {tile + 1}; }
  };

  __device__ static void init(shared& s) {
    s.q_full.init(1), s.q_empty.init(consumers), s.task_full.init(1), s.task_empty.init(consumers);
    for (int i = 0; i < stages; ++i) s.k_full[i].init(32), s.k_empty[i].init(consumers), s.v_full[i].init(1), s.v_empty[i].init(consumers);
    fence_barrier_init();
  }

  /// Task number -> work. Heads one after the other, so that few heads' keys are in the L2 cache at a time; within one the last tiles,
  /// which under causality have the longest lists, first.
  __device__ task task_at(std::int32_t number) const {
    task t;
    index_t const per_head = tiles_per_head();
    index_t const at = number % per_head, h = number / per_head;
    t.head = static_cast<int>(h % heads()) * group, t.b = h / heads();
    t.s = sequence_at(args.lengths, args.shape, t.b);
    index_t const list_tile = (per_head - 1 - at) / parts(), part = (per_head - 1 - at) % parts();
    t.first = list_tile * args.index.tile_rows + part * tokens;
    index_t const end = min(min((list_tile + 1) * args.index.tile_rows, t.s.queries), t.first + tokens);
    t.count = static_cast<int>(max<index_t>(end - t.first, 0));
    t.position = static_cast<std::int32_t>(t.s.position(t.first));
    t.first_member = static_cast<int>(part * tokens);
    return t;
  }

  /// The task once more, computed anew: holding it while attending costs more registers than there are.
  __device__ task task_again(std::int32_t number) const {
    asm volatile("" : "+r"(number));
    return task_at(number);
  }

  __device__ half_rows rows_of_half(task const& t, int h) const {
    half_rows r{0, -1, 0};
    int const first_row = h * half, last_row = min(first_row + half, t.count * group) - 1;
    if (last_row < first_row) return r;
    int const first = first_row / group, last = last_row / group;
    r.first = t.position + first, r.last = t.position + last;
    int const low = (t.first_member + first) / member_tokens, high = (t.first_member + last) / member_tokens;
    r.members = high - low >= 63 ? ~std::uint64_t{0} : ((std::uint64_t{2} << (high - low)) - 1) << (low & 63);
    return r;
  }

  __device__ std::int32_t limit_of(task const& t) const {
    std::int32_t const keys_there = static_cast<std::int32_t>(t.s.keys);
    return args.index.causal ? clamp<std::int32_t>(t.position + t.count, 0, keys_there) : keys_there;
  }

  /// The producer warp: takes tasks and brings their queries and tiles.
  __device__ void produce(shared& s) const {
    place here;
    std::uint32_t parity = 0;
    int const lane = threadIdx.x;
    if (lane == 0) q_map.prefetch(), k_map.prefetch(), v_map.prefetch();
    for (;;) {
      std::int32_t number = 0;
      if (lane == 0) number = atomicAdd(counter, 1);
      number = __shfl_sync(0xffffffffu, number, 0);
      if (number >= tasks()) break;
      task const t = task_at(number);
      if (t.count == 0) continue;
      int const list = args.list_of(t.head);
      segment_walk<SegmentKeys> walk{args.index.row(t.s, t.b, list, t.first / args.index.tile_rows), limit_of(t)};
      bool verticals = false;  // column tiles come after the spans
      if constexpr (Columns) verticals = !columns_of(task_again(number)).done();
      bool const empty = walk.done() && !verticals;
      announce(s, empty ? ~number : number, parity);
      bring_queries(s, t, empty, parity);
      parity ^= 1;
      head_rule const rule = args.index.rules[args.index.head_at(t.b, list)];
      half_rows const rows_of[2] = {rows_of_half(t, 0), rows_of_half(t, 1)};
      while (!walk.done()) bring_batch(s, here, walk, t, rule, rows_of, verticals);
      if constexpr (Columns) bring_columns(s, here, number);
    }
    announce(s, no_task, parity);
  }

  __device__ static void announce(shared& s, std::int32_t number, std::uint32_t parity) {
    s.task_empty.wait(parity ^ 1);
    if (threadIdx.x != 0) return;
    s.task = number;
    s.task_full.arrive();
  }

  __device__ void bring_queries(shared& s, task const& t, bool empty, std::uint32_t parity) const {
    s.q_empty.wait(parity ^ 1);
    if (threadIdx.x != 0) return;
    if (empty) return s.q_full.arrive();
    s.q_full.expect(panels * static_cast<std::uint32_t>(tokens * group * 64 * sizeof(element)));
    for (int p = 0; p < panels; ++p)
      q_map.load(s.q[p], s.q_full, t.head, static_cast<int>(t.s.first_query + t.first), p, batch_of(t.b, args.q));
  }

  static constexpr std::int32_t no_task = -0x7fffffff - 1;

  template <class View>
  __device__ static int batch_of(index_t b, View const& v) {
    return v.extent[0] == 1 || v.stride[0] == 0 ? 0 : static_cast<int>(b);  // packed sequences share one batch entry
  }

  /// The next tiles of the walk, a lane a segment: what consumers must know of them is worked out for the whole warp's segments at once,
  /// because one tile at a time takes as long as the tile's products.
  __device__ void bring_batch(shared& s, place& here, segment_walk<SegmentKeys>& walk, task const& t, head_rule const& rule,
                              half_rows const (&rows_of)[2], bool columns_follow) const {
    auto [segment, count] = walk.next();
    segment.valid = read_keys(segment, t, rows_of);
    segment_votes const votes = vote(segment, t, rule, rows_of);
    int const kv_head = args.shape.kv_head(t.head), tiles = ceil_div(count, tile::segments);
    for (int i = 0; i < tiles; ++i, here = here.next()) {
      int const mine = static_cast<int>(threadIdx.x) - i * tile::segments;  // segment of the tile, if it is one
      s.k_empty[here.stage()].wait(here.parity() ^ 1);
      describe(s.tiles[here.slot()], mine, segment,
               votes.template flags<tile::segments>(i, walk.done() && !columns_follow && i + 1 == tiles));
      if (mine != 0) s.k_full[here.stage()].arrive();  // every lane's part of the description is there
      load(s.k[here.stage()], s.k_full[here.stage()], k_map, mine, segment.begin, t, kv_head, args.kv.keys);
      s.v_empty[here.stage()].wait(here.parity() ^ 1);
      load(s.v[here.stage()], s.v_full[here.stage()], v_map, mine, segment.begin, t, kv_head, args.kv.values);
    }
  }

  __device__ int compact_head(task const& t) const { return list_head(t.head, args.shape.query_heads, columns.compact.heads); }

  __device__ column_walk columns_of(task const& t) const {
    int const list = args.list_of(t.head);
    return {args.index.row(t.s, t.b, list, t.first / args.index.tile_rows), args.index.column_words(),
            columns.compact.unfit + columns.compact.word_at(t.b, compact_head(t)), limit_of(t)};
  }

  /// The column tiles that have readers; everything about the task is worked out anew, for it would have to be held beside the spans'.
  __device__ void bring_columns(shared& s, place& here, std::int32_t number) const {
#pragma unroll 1
    for (column_walk walk = columns_of(task_again(number)); !walk.done();) bring_slots(s, here, walk, number);
  }

  /// The next 16 column tiles, those without readers left out.
  __device__ void bring_slots(shared& s, place& here, column_walk& walk, std::int32_t number) const {
    column_walk::segment const segment = walk.next();
    segment_votes const votes = vote(segment, task_again(number));
    slots_of_task const from = slots_of(task_again(number));
    std::uint32_t const with_readers = __ballot_sync(0xffffffffu, segment.readers != 0);
    segment_type described;
    described.begin = segment.slot, described.valid = SegmentKeys, described.members = segment.readers;
#pragma unroll 1
    for (int i = 0; i < 32 / tile::segments; ++i) {
      std::uint32_t const rest = with_readers >> i * tile::segments;
      if (!(rest & ((1u << tile::segments) - 1))) continue;
      tile_flags flags = votes.template flags<tile::segments>(i, walk.done() && rest >> tile::segments == 0);
      flags.set_columns();
      int const mine = static_cast<int>(threadIdx.x) - i * tile::segments;
      s.k_empty[here.stage()].wait(here.parity() ^ 1);
      describe(s.tiles[here.slot()], mine, described, flags);
      if (mine != 0) s.k_full[here.stage()].arrive();
      load_slots(s.k[here.stage()], s.k_full[here.stage()], columns.k_map, mine, segment.slot, from);
      s.v_empty[here.stage()].wait(here.parity() ^ 1);
      load_slots(s.v[here.stage()], s.v_full[here.stage()], columns.v_map, mine, segment.slot, from);
      here = here.next();
    }
  }

  /// Where a task's compact columns are.
  struct slots_of_task {
    int b, head;
  };
  __device__ slots_of_task slots_of(task const& t) const { return {static_cast<int>(t.b), compact_head(t)}; }

  __device__ void load_slots(element* to, mbarrier& full, tensor_map const& map, int mine, std::int32_t slot, slots_of_task from) const {
    if (mine == 0) full.expect(tile_bytes);
    __syncwarp();
    if (mine < 0 || mine >= tile::segments) return;
    for (int p = 0; p < panels; ++p)
      map.load(to + (p * panel_stride + mine * (SegmentKeys / 8) * group_stride) / sizeof(element), full, from.head, slot, p, from.b);
  }

  __device__ segment_votes vote(column_walk::segment const& mine, task const& t) const {
    head_rule const rule = args.index.rules[args.index.head_at(t.b, args.list_of(t.head))];
    segment_votes votes;
    votes.partial = __ballot_sync(0xffffffffu, mine.clear);
    for (int h = 0; h < 2; ++h) {
      half_rows const r = rows_of_half(t, h);
      bool const read = mine.readers != 0 && r.members != 0 && (!args.index.causal || mine.first <= r.last);
      bool parts = read && args.index.causal && mine.last > r.first;
      for (int head = t.head; head < t.head + group && read && !parts; ++head)
        parts = !args.mask.sees_all(rule, head, r.first, r.last, mine.first, mine.last + 1);
      votes.read[h] = __ballot_sync(0xffffffffu, read), votes.element_wise[h] = __ballot_sync(0xffffffffu, parts);
      votes.masked[h] = votes.read[h];
    }
    return votes;
  }

  /// Keys of a segment that some row reads, from its first on: none past the position of the last member that there is.
  __device__ std::int32_t read_keys(segment_type const& g, task const& t, half_rows const (&rows_of)[2]) const {
    if (g.members == ~std::uint64_t{0}) return g.valid;
    std::uint64_t const here = g.members & (rows_of[0].members | rows_of[1].members);
    if (here == 0) return 0;
    if (!args.index.causal) return g.valid;
    int const token = min((64 - __clzll(static_cast<long long>(here))) * member_tokens - t.first_member, t.count) - 1;
    return clamp<std::int32_t>(t.position + token + 1 - g.begin, 0, g.valid);
  }

  __device__ segment_votes vote(segment_type const& mine, task const& t, head_rule const& rule, half_rows const (&rows_of)[2]) const {
    std::int32_t const end = mine.begin + mine.valid;
    segment_votes votes;
    votes.partial = __ballot_sync(0xffffffffu, mine.valid < SegmentKeys);
    for (int h = 0; h < 2; ++h) {
      half_rows const& r = rows_of[h];
      bool const read = mine.valid > 0 && (mine.members & r.members) != 0 && (!args.index.causal || mine.begin <= r.last);
      bool parts = mine.valid < SegmentKeys || (args.index.causal && end > r.first + 1);
      for (int head = t.head; head < t.head + group && !parts; ++head)
        parts = !args.mask.sees_all(rule, head, r.first, r.last, mine.begin, end);
      bool const mask = parts || (mine.members & r.members) != r.members;
      votes.read[h] = __ballot_sync(0xffffffffu, read), votes.masked[h] = __ballot_sync(0xffffffffu, mask);
      votes.element_wise[h] = __ballot_sync(0xffffffffu, parts);
    }
    return votes;
  }

  /// Segment `mine` of a tile, a lane each; no segment outside [0, segments).
  __device__ static void describe(tile& now, int mine, segment_type const& segment, tile_flags flags) {
    if (0 <= mine && mine < tile::segments)
      now.begin[mine] = segment.begin, now.valid[mine] = static_cast<std::uint8_t>(segment.valid), now.members[mine] = segment.members;
    if (mine == 0) now.flags = flags;
    __syncwarp();
  }

  /// Each lane brings its segment.
  template <class View>
  __device__ void load(element* to, mbarrier& full, tensor_map const& map, int mine, std::int32_t begin, task const& t, int kv_head,
                       View const& view) const {
    if (mine == 0) full.expect(tile_bytes);
    __syncwarp();
    if (mine < 0 || mine >= tile::segments) return;
    for (int p = 0; p < panels; p += box_panels)
      map.load(to + (p * panel_stride + mine * (SegmentKeys / 8) * group_stride) / sizeof(element), full, kv_head,
               static_cast<int>(t.s.first_key + begin), p, batch_of(t.b, view));
  }

  /// What a consumer thread carries through a task.
  struct accumulator {
    float out[Dim / 2];
    std::uint32_t weights[keys / 4];  // of the tile whose values are still to be multiplied, in pairs of 16 bits
    softmax_rows rows;
  };

  __device__ void consume(shared& s, int warpgroup) const {
    place here;
    std::uint32_t parity = 0;
    if (warpgroup == 1) bar_arrive(turn_of(0), 256);
    for (;;) {
      s.task_full.wait(parity);
      std::int32_t const number = s.task;
      if (number == no_task) break;
      s.task_empty.arrive();
      accumulator a;
#pragma unroll
      for (float& x : a.out) x = 0;
      s.q_full.wait(parity);
      parity ^= 1;
      if (number >= 0) attend(s, here, task_at(number), a, warpgroup);
      s.q_empty.arrive();
      store(task_again(number < 0 ? ~number : number), a, warpgroup);
    }
    if (warpgroup == 0) bar_sync(turn_of(0), 256);
  }

  __device__ static int turn_of(int warpgroup) { return 1 + warpgroup; }
  __device__ static void take_turn(int warpgroup) { bar_sync(turn_of(warpgroup), 256); }
  __device__ static void pass_turn(int warpgroup) { bar_arrive(turn_of(1 - warpgroup), 256); }
  /// All tiles of a task. Between tiles the values of the last one are still to be multiplied: they go along with the next one's keys.
  __device__ void attend(shared& s, place& here, task const& t, accumulator& a, int warpgroup) const {
    row_pair const mine = rows_of(t, warpgroup);
    float logits[keys / 2];
    tile_flags flags;
    bool more = seek(s, here, flags, warpgroup);
    while (more) {
      operand const q = queries_at(s, warpgroup), k = keys_at(s, here);
      take_turn(warpgroup);
      wgmma_fence();
      multiply_keys(logits, q, k);
      pass_turn(warpgroup);
      wgmma_wait<0>();
      keep_in_registers(logits);
      s.k_empty[here.stage()].arrive();
      rescale(a.out, weigh(s, here, flags, a, logits, mine, warpgroup));
      pack(a.weights, logits);
      more = follow(s, here, flags, a, logits, mine, warpgroup);
    }
  }

  /// Tiles as long as they come without a gap; then the values of the last. False at the task's end. The softmax of a tile may run beside
  /// the products with the values before it.
  __device__ bool follow(shared& s, place& here, tile_flags& flags, accumulator& a, float (&logits)[keys / 2], row_pair const& mine,
                         int warpgroup) const {
    tile_flags coming = flags_of_next(s, here, flags);
    while (!flags.last() && !coming.skipped(warpgroup)) {
      place const next = here.next();
      if (flags.partial()) clear_tails(s, here, warpgroup);
      operand const q = queries_at(s, warpgroup), k = keys_at(s, next), v = values_at(s, here);
      take_turn(warpgroup);
      wgmma_fence();
      multiply_keys(logits, q, k);
      multiply_values(a, v);
      pass_turn(warpgroup);
      wgmma_wait<1>();
      keep_in_registers(logits);
      s.k_empty[next.stage()].arrive();
      row_factors const keep = weigh(s, next, coming, a, logits, mine, warpgroup);
      int const done = here.stage();
      here = next, flags = coming;
      coming = flags_of_next(s, here, flags);
      wgmma_wait<0>();
      keep_in_registers(a.out);
      s.v_empty[done].arrive();
      rescale(a.out, keep);
      pack(a.weights, logits);
    }
    multiply_last(s, here, flags, a, warpgroup);
    here = here.next();
    if (flags.last()) return false;
    flags = coming;
    return seek(s, here, flags, warpgroup);
  }

  /// Waits for a tile's values and for the keys of the next, if there is one, whose flags it returns.
  __device__ static tile_flags flags_of_next(shared& s, place const& here, tile_flags flags) {
    s.v_full[here.stage()].wait(here.parity());
    if (flags.last()) return flags;
    place const next = here.next();
    s.k_full[next.stage()].wait(next.parity());
    return s.tiles[next.slot()].flags;
  }

  __device__ void multiply_last(shared& s, place const& at, tile_flags flags, accumulator& a, int warpgroup) const {
    if (flags.partial()) clear_tails(s, at, warpgroup);
    operand const v = values_at(s, at);
    wgmma_fence();
    multiply_values(a, v);
    wgmma_wait<0>();
    keep_in_registers(a.out);
    s.v_empty[at.stage()].arrive();
  }

  /// Moves to the next tile that holds something for this half; false, past the task's tiles, if none does.
  __device__ bool seek(shared& s, place& here, tile_flags& flags, int warpgroup) const {
    for (;;) {
      s.k_full[here.stage()].wait(here.parity());
      flags = s.tiles[here.slot()].flags;
      if (!flags.skipped(warpgroup)) return true;
      take_turn(warpgroup);
      pass_turn(warpgroup);
      s.k_empty[here.stage()].arrive();
      s.v_full[here.stage()].wait(here.parity());
      s.v_empty[here.stage()].arrive();
      here = here.next();
      if (flags.last()) return false;
    }
  }

  __device__ static operand queries_at(shared& s, int warpgroup) { return operand::at(s.q[0] + warpgroup * half * 64, 1024, 0); }
  __device__ static operand keys_at(shared& s, place const& at) { return operand::at(s.k[at.stage()], group_stride, 0); }
  __device__ static operand values_at(shared& s, place const& at) { return operand::at(s.v[at.stage()], group_stride, panel_stride); }

  /// logits = Q K^T for this warpgroup's 64 rows.
  __device__ static void multiply_keys(float (&logits)[keys / 2], operand const& q, operand const& k) {
#pragma unroll
    for (int step = 0; step < Dim / 16; ++step) {
      std::uint32_t const panel = step / 4, column_bytes = step % 4 * 32;
      multiply<element, keys>(logits, q.further(panel * rows * 128 + column_bytes), k.further(panel * panel_stride + column_bytes),
                              step > 0);
    }
    wgmma_commit();
  }

  /// out += weights V.
  __device__ static void multiply_values(accumulator& a, operand const& v) {
#pragma unroll
    for (int step = 0; step < keys / 16; ++step) multiply<element, Dim>(a.out, a.weights + step * 4, v.further(step * 2 * group_stride));
    wgmma_commit();
  }

  /// V rows that nobody reads hold other tokens' data: zero them, since 0 * NaN is NaN. Both warpgroups write the zeros.
  __device__ static void clear_tails(shared& s, place const& at, int warpgroup) {
    tile const& now = s.tiles[at.slot()];
    for (int row = threadIdx.x % 128 / 8; row < keys; row += 16) {
      int const segment = row / SegmentKeys;
      if (Columns && now.flags.columns() ? now.members[segment] >> row % SegmentKeys & 1 : row % SegmentKeys < now.valid[segment]) continue;
      for (int p = 0; p < panels; ++p) {
        auto* const start = reinterpret_cast<std::byte*>(s.v[at.stage()]) + row / 8 * group_stride + p * panel_stride + row % 8 * 128;
        reinterpret_cast<uint4*>(start)[threadIdx.x % 8] = uint4{0, 0, 0, 0};
      }
    }
    fence_async_proxy();
    bar_sync(3 + warpgroup, 128);
  }

  __device__ row_pair rows_of(task const& t, int warpgroup) const {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    row_pair p;
    p.rule = args.index.rules + args.index.head_at(t.b, args.list_of(t.head));
    for (int r = 0; r < 2; ++r) {
      int const row = warpgroup * half + warp * 16 + lane / 4 + r * 8, token = row / group;
      p.position[r] = t.position + token, p.head[r] = t.head + row % group;
      p.member[r] = (t.first_member + token) / member_tokens & 63;
    }
    return p;
  }

  /// Masks the tile and turns logits into weights.
  __device__ row_factors weigh(shared& s, place const& here, tile_flags flags, accumulator& a, float (&logits)[keys / 2],
                               row_pair const& mine, int warpgroup) const {
    if (args.logits.soft_cap > 0) cap(logits, args.logits);
    if (Columns && flags.columns()) {
      if constexpr (Columns) mask_slots(logits, s.tiles[here.slot()], mine, flags.element_wise(warpgroup));
    } else if (flags.element_wise(warpgroup)) {
      mask(logits, s.tiles[here.slot()], mine);
    } else if (flags.masked(warpgroup)) {
      mask_segments(logits, s.tiles[here.slot()], mine);
    }
    return a.rows.absorb(logits, logit_scale::of(args.logits));
  }

  __device__ void mask(float (&logits)[keys / 2], tile const& now, row_pair const& mine) const {
    head_rule const rule = *mine.rule;
    int const column = threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < keys / 2; ++i) {
      int const segment = i / 4 * 8 / SegmentKeys, offset = i / 4 * 8 - segment * SegmentKeys + column + i % 2, r = i / 2 % 2;
      std::int32_t const key = now.begin[segment] + offset;
      bool const sees = offset < now.valid[segment] && now.members[segment] >> mine.member[r] & 1 &&
                        !(args.index.causal && key > mine.position[r]) && args.mask.visible(rule, mine.head[r], mine.position[r], key);
      if (!sees) logits[i] = -infinity;
    }
  }

  /// Slots that the list's tile does not read, and where `by_position` says so those that causality or the head's rule hides from a row.
  __device__ void mask_slots(float (&logits)[keys / 2], tile const& now, row_pair const& mine, bool by_position) const {
    int const column = threadIdx.x % 4 * 2;
    std::uint32_t hidden[2] = {0, 0};  // bit j: the thread's j-th slot
    if (by_position) hidden[0] = hidden_slots(now.begin[0] + column, mine, 0), hidden[1] = hidden_slots(now.begin[0] + column, mine, 1);
#pragma unroll
    for (int word = 0; word < keys / 32; ++word) {
      std::uint32_t const read = static_cast<std::uint32_t>(now.members[word / 2] >> word % 2 * 32) >> column;
#pragma unroll
      for (int i = word * 16; i < (word + 1) * 16; ++i)
        if (!(read >> (i / 4 * 8 % 32 + i % 2) & 1) || hidden[i / 2 % 2] >> (i / 4 * 2 + i % 2) & 1) logits[i] = -infinity;
    }
  }

  /// Bit j: the row of the pair must not see the thread's j-th slot of the tile, the first of which is `first`.
  __device__ std::uint32_t hidden_slots(int first, row_pair const& mine, int r) const {
    head_rule const rule = *mine.rule;
    index_t const list = mine.rule - args.index.rules;
    std::int32_t const* const positions = args.index.columns + list * args.index.capacity.columns;
    int const count = args.index.column_count[list], head = r ? mine.head[1] : mine.head[0];
    std::int32_t const position = r ? mine.position[1] : mine.position[0];
    std::uint32_t hidden = 0;
#pragma unroll 1
    for (int j = keys / 4 - 1; j >= 0; --j) {
      int const slot = first + j / 2 * 8 + j % 2;
      std::int32_t const key = slot < count ? positions[slot] : 0;
      bool const sees = !(args.index.causal && key > position) && args.mask.visible(rule, head, position, key);
      hidden = hidden << 1 | !sees;
    }
    return hidden;
  }

  /// Every segment is read whole or not at all, by each row.
  __device__ static void mask_segments(float (&logits)[keys / 2], tile const& now, row_pair const& mine) {
#pragma unroll
    for (int segment = 0; segment < tile::segments; ++segment) {
      std::uint64_t const members = now.members[segment];
      bool const hidden[2] = {!(members >> mine.member[0] & 1), !(members >> mine.member[1] & 1)};
      constexpr int each = SegmentKeys / 2;  // logits of a segment
#pragma unroll
      for (int i = segment * each; i < (segment + 1) * each; ++i)
        if (hidden[i / 2 % 2]) logits[i] = -infinity;
    }
  }

  /// Most tiles of a long row do not raise its maximum.
  __device__ static void rescale(float (&out)[Dim / 2], row_factors const& keep) {
    if (!__any_sync(0xffffffffu, keep.row[0] != 1 || keep.row[1] != 1)) return;
#pragma unroll
    for (int i = 0; i < Dim / 2; ++i) out[i] *= keep.row[i / 2 % 2];
  }

  /// Weights as pairs of 16 bits in the order in which wgmma reads its left operand from registers.
  __device__ static void pack(std::uint32_t (&weights)[keys / 4], float const (&logits)[keys / 2]) {
#pragma unroll
    for (int i = 0; i < keys / 4; ++i) weights[i] = pack_pair<element>(logits[2 * i], logits[2 * i + 1]);
  }

  __device__ void store(task const& t, accumulator& a, int warpgroup) const {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int const row = warpgroup * 64 + warp * 16 + lane / 4 + half * 8, token = row / group, head = t.head + row % group;
      row_result const r = a.rows.finish(half, logit_scale::of(args.logits), args.sink_logits ? args.sink_logits + head : nullptr,
                                         row < tokens * group && token < t.count);
      if (row >= tokens * group || token >= t.count) continue;
      index_t const query = t.s.first_query + t.first + token;
      element* const out = args.out.row(t.b, query, head);
#pragma unroll
      for (int j = 0; j < Dim / 8; ++j)
        *reinterpret_cast<std::uint32_t*>(out + j * 8 + lane % 4 * 2) =
            pack_pair<element>(a.out[j * 4 + half * 2] * r.norm, a.out[j * 4 + half * 2 + 1] * r.norm);
      if (args.lse && lane % 4 == 0) args.lse(t.b, query, head) = r.lse;
    }
  }
#endif
};

}  // namespace lacuna::sm90
