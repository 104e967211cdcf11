#pragma once
#include <lacuna/arch/sm90/mbarrier.cuh>
#include <lacuna/arch/sm90/tensor_map.cuh>
#include <lacuna/arch/sm90/wgmma.cuh>
#include <lacuna/kernels/attend_args.hpp>
#include <lacuna/kernels/sm90/key_tiles.cuh>
#include <lacuna/kernels/sm90/softmax_rows.cuh>

namespace lacuna::sm90 {

/// Attention of 128 query rows at a time over their list's keys, on Hopper: a producer warp brings tiles of 128 keys through the copy
/// engine, two consumer warpgroups of 64 rows multiply, and the softmax of one tile runs beside the products of the next.
///
/// Rows are `tokens` query tokens x `group` heads that share a list and a KV head, head fastest. Blocks are persistent and take tasks
/// from a counter, the longest rows of a head first; the result does not depend on who takes which.
///
/// Shared memory for Dim 128: Q 32 KB + Stages (2) x (K 32 KB + V 32 KB) = 160 KB. Registers of a consumer thread: output 64, logits 64,
/// weights 32, of 232.
template <class Args, int Dim, int SegmentKeys = 64>
struct attend_prefill {
  using element = typename Args::element;
  using tile = key_tile<SegmentKeys>;
  static constexpr int rows = 128, keys = tile::keys, panels = Dim / 64, stages = 2;
  static constexpr int max_team_size = 384, consumer_warps = 8;
  static constexpr int producer_registers = 40, consumer_registers = 232;
  static constexpr std::uint32_t panel_bytes = keys * 64 * sizeof(element), tile_bytes = panels * panel_bytes;

  Args args;
  tensor_map q_map, k_map, v_map;
  int group = 1, tokens = rows;  // tokens * group <= rows
  std::int32_t* counter = nullptr;  // 0 before the launch

  struct alignas(1024) shared {
    element q[panels][rows * 64];
    element k[stages][panels][keys * 64];
    element v[stages][panels][keys * 64];
    tile tiles[stages];
    mbarrier q_full, q_empty, k_full[stages], k_empty[stages], v_full[stages], v_empty[stages], task_full, task_empty;
    std::int32_t task;
  };

  /// One block's piece of work.
  struct task {
    index_t b, first;  // first query token
    int head;          // first query head
    int count;         // query tokens
    std::int32_t position, limit;  // of the first token; first key that no row sees
    sequence s;
    bool any;
  };

  LACUNA_HD std::size_t scratch_bytes() const { return sizeof(shared); }
  LACUNA_HD index_t tiles_per_head() const { return ceil_div<index_t>(args.index.tile_rows, tokens) * args.index.tiles; }
  LACUNA_HD index_t heads() const { return args.shape.query_heads / group; }
  LACUNA_HD index_t tasks() const { return args.shape.batch * heads() * tiles_per_head(); }

  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t) const {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    auto& s = *reinterpret_cast<shared*>(team.scratch());
    int const warpgroup = threadIdx.x / 128;
    if (threadIdx.x == 0) init(s);
    __syncthreads();
    if (warpgroup == 0) {
      give_registers<producer_registers>();
      if (threadIdx.x == 0) produce(s);
    } else {
      take_registers<consumer_registers>();
      consume(s, warpgroup - 1);
    }
#endif
  }

#ifdef __CUDACC__
 private:
  __device__ static void init(shared& s) {
    s.q_full.init(1), s.q_empty.init(consumer_warps), s.task_full.init(1), s.task_empty.init(consumer_warps);
    for (int i = 0; i < stages; ++i)
      s.k_full[i].init(1), s.k_empty[i].init(consumer_warps), s.v_full[i].init(1), s.v_empty[i].init(consumer_warps);
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
    int const parts = static_cast<int>(ceil_div<index_t>(args.index.tile_rows, tokens));
    index_t const list_tile = (per_head - 1 - at) / parts, part = (per_head - 1 - at) % parts;
    t.first = list_tile * args.index.tile_rows + part * tokens;
    index_t const end = min(min((list_tile + 1) * args.index.tile_rows, t.s.queries), t.first + tokens);
    t.count = static_cast<int>(max<index_t>(end - t.first, 0));
    t.position = static_cast<std::int32_t>(t.s.position(t.first));
    t.limit = args.index.causal ? clamp<index_t>(t.position + t.count, 0, t.s.keys) : t.s.keys;
    t.any = t.count > 0;
    return t;
  }

  __device__ void produce(shared& s) const {
    ring<stages> at;
    std::uint32_t task_parity = 0;
    q_map.prefetch(), k_map.prefetch(), v_map.prefetch();
    for (std::int32_t number; (number = atomicAdd(counter, 1)) < tasks();) {
      task const t = task_at(number);
      if (!t.any) continue;
      int const list = args.list_of(t.head), kv_head = args.shape.kv_head(t.head);
      head_rule const rule = args.index.rules[args.index.head_at(t.b, list)];
      key_walk<SegmentKeys> walk{args.index.row(t.s, t.b, list, t.first / args.index.tile_rows), t.limit};

      s.task_empty.wait(task_parity ^ 1);
      s.task = walk.done() ? ~number : number;
      s.task_full.arrive();
      s.q_empty.wait(task_parity ^ 1);
      task_parity ^= 1;
      if (walk.done()) {
        s.q_full.arrive();
        continue;
      }
      std::uint32_t const q_bytes = static_cast<std::uint32_t>(tokens * group * 64 * sizeof(element));
      s.q_full.expect(panels * q_bytes);
      for (int p = 0; p < panels; ++p) q_map.load(s.q[p], s.q_full, t.head, static_cast<int>(t.s.first_query + t.first), p, batch_of(t.b, args.q));
      for (; !walk.done(); at.advance()) bring(s, at, walk, t, rule, kv_head);
    }
    s.task_empty.wait(task_parity ^ 1);
    s.task = no_task;
    s.task_full.arrive();
  }

  static constexpr std::int32_t no_task = -0x7fffffff - 1;

  template <class View>
  __device__ static int batch_of(index_t b, View const& v) {
    return v.extent[0] == 1 ? 0 : static_cast<int>(b);
  }

  __device__ void bring(shared& s, ring<stages>& at, key_walk<SegmentKeys>& walk, task const& t, head_rule const& rule, int kv_head) const {
    s.k_empty[at.stage].wait(at.parity ^ 1);
    tile& now = s.tiles[at.stage];
    walk.next(now);
    now.masked = now.partial;
    for (int i = 0; i < tile::segments; ++i) {
      std::int32_t const end = now.begin[i] + now.valid[i], last = t.position + t.count - 1;
      now.masked |= args.index.causal && end > t.position + 1;
      now.masked |= !args.mask.sees_all(rule, t.head, t.position, last, now.begin[i], end);
    }
    load(s.k[at.stage], s.k_full[at.stage], k_map, now, t, kv_head, args.kv.keys);
    s.v_empty[at.stage].wait(at.parity ^ 1);
    load(s.v[at.stage], s.v_full[at.stage], v_map, now, t, kv_head, args.kv.values);
  }

  template <class View>
  __device__ void load(element (&to)[panels][keys * 64], mbarrier& full, tensor_map const& map, tile const& now, task const& t, int kv_head,
                       View const& view) const {
    full.expect(tile_bytes);
    for (int i = 0; i < tile::segments; ++i)
      for (int p = 0; p < panels; ++p)
        map.load(to[p] + i * SegmentKeys * 64, full, kv_head, static_cast<int>(t.s.first_key + now.begin[i]), p, batch_of(t.b, view));
  }

  /// What a consumer thread carries through a task.
  struct accumulator {
    float out[Dim / 2];
    std::uint32_t weights[keys / 4];  // of the tile before, in pairs of 16 bits
    softmax_rows rows;
  };

  __device__ void consume(shared& s, int warpgroup) const {
    ring<stages> at;
    std::uint32_t parity = 0;
    if (warpgroup == 1) bar_arrive(turn_of(0), 256);
    for (;;) {
      s.task_full.wait(parity);
      std::int32_t const number = s.task;
      if (number == no_task) break;
      task const t = task_at(number < 0 ? ~number : number);
      release(s.task_empty);
      accumulator a;
#pragma unroll
      for (float& x : a.out) x = 0;
      s.q_full.wait(parity);
      parity ^= 1;
      if (number >= 0) attend(s, at, t, a, warpgroup);
      release(s.q_empty);
      store(t, a, warpgroup);
    }
    if (warpgroup == 0) bar_sync(turn_of(0), 256);
  }

  __device__ static int turn_of(int warpgroup) { return 1 + warpgroup; }
  __device__ static void release(mbarrier& empty) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) empty.arrive();
  }

  __device__ void attend(shared& s, ring<stages>& at, task const& t, accumulator& a, int warpgroup) const {
    row_pair const mine = rows_of(t, warpgroup);
    float logits[keys / 2];
    tile now;
    ring<stages> before = at;
    first_products(s, at, a, logits, now, warpgroup);
    mask_and_weigh(a, logits, now, t, mine);
    pack(a.weights, logits);
    bool partial = now.partial;
    tile partial_tile = now;
    while (!now.last) {
      before = at;
      at.advance();
      s.k_full[at.stage].wait(at.parity);
      bar_sync(turn_of(warpgroup), 256);
      wgmma_fence();
      multiply_keys(s, at.stage, logits, warpgroup);
      s.v_full[before.stage].wait(before.parity);
      if (partial) clear_tails(s, before.stage, partial_tile, warpgroup);
      multiply_values(s, before.stage, a);
      bar_arrive(turn_of(1 - warpgroup), 256);
      now = s.tiles[at.stage];
      wgmma_wait<1>();
      keep_in_registers(logits);
      release(s.k_empty[at.stage]);
      auto const keep = mask_and_weigh(a, logits, now, t, mine);
      wgmma_wait<0>();
      keep_in_registers(a.out);
      release(s.v_empty[before.stage]);
      rescale(a.out, keep);
      pack(a.weights, logits);
      partial = now.partial, partial_tile = now;
    }
    s.v_full[at.stage].wait(at.parity);
    if (partial) clear_tails(s, at.stage, partial_tile, warpgroup);
    wgmma_fence();
    multiply_values(s, at.stage, a);
    wgmma_wait<0>();
    keep_in_registers(a.out);
    release(s.v_empty[at.stage]);
    at.advance();
  }

  __device__ void first_products(shared& s, ring<stages> const& at, accumulator&, float (&logits)[keys / 2], tile& now, int warpgroup) const {
    s.k_full[at.stage].wait(at.parity);
    wgmma_fence();
    multiply_keys(s, at.stage, logits, warpgroup);
    now = s.tiles[at.stage];
    wgmma_wait<0>();
    keep_in_registers(logits);
    release(s.k_empty[at.stage]);
  }

  /// logits = Q K^T for this warpgroup's 64 rows.
  __device__ static void multiply_keys(shared& s, int stage, float (&logits)[keys / 2], int warpgroup) {
#pragma unroll
    for (int step = 0; step < Dim / 16; ++step) {
      int const panel = step / 4, column = step % 4 * 16;
      multiply<element, keys>(logits, operand(s.q[panel] + warpgroup * 64 * 64 + column, 0), operand(s.k[stage][panel] + column, 0), step > 0);
    }
    wgmma_commit();
  }

  /// out += weights V.
  __device__ static void multiply_values(shared& s, int stage, accumulator& a) {
#pragma unroll
    for (int step = 0; step < keys / 16; ++step)
      multiply<element, Dim>(a.out, a.weights + step * 4, operand(s.v[stage][0] + step * 16 * 64, panel_bytes));
    wgmma_commit();
  }

  /// V rows past the valid ones of a segment hold other tokens' data: zero them, since 0 * NaN is NaN. Both warpgroups write the zeros.
  __device__ static void clear_tails(shared& s, int stage, tile const& now, int warpgroup) {
    int const thread = threadIdx.x % 128;
    for (int i = 0; i < tile::segments; ++i)
      for (int at = thread; at < (SegmentKeys - now.valid[i]) * 8 * panels; at += 128) {
        int const row = i * SegmentKeys + now.valid[i] + at / 8 % (SegmentKeys - now.valid[i]), panel = at / 8 / (SegmentKeys - now.valid[i]);
        reinterpret_cast<uint4*>(s.v[stage][panel] + row * 64)[at % 8] = uint4{0, 0, 0, 0};
      }
    fence_async_proxy();
    bar_sync(3 + warpgroup, 128);
  }

  __device__ row_pair rows_of(task const& t, int warpgroup) const {
    int const lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    int const row = warpgroup * 64 + warp * 16 + lane / 4;
    return {{t.position + row / group, t.position + (row + 8) / group}, {t.head + row % group, t.head + (row + 8) % group}};
  }

  __device__ row_factors mask_and_weigh(accumulator& a, float (&logits)[keys / 2], tile const& now, task const& t, row_pair const& mine) const {
    logit_scale const scale = logit_scale::of(args.logits);
    if (args.logits.soft_cap > 0) cap(logits, args.logits);
    if (now.masked) {
      head_rule const rule = args.index.rules[args.index.head_at(t.b, args.list_of(t.head))];
      int const column = threadIdx.x % 4 * 2;
#pragma unroll
      for (int i = 0; i < keys / 2; ++i) {
        int const c = i / 4 * 8 + column + i % 2, segment = c / SegmentKeys;
        std::int32_t const key = now.begin[segment] + c % SegmentKeys, position = mine.position[i / 2 % 2];
        bool const sees = c % SegmentKeys < now.valid[segment] && !(args.index.causal && key > position) &&
                          args.mask.visible(rule, mine.head[i / 2 % 2], position, key);
        if (!sees) logits[i] = -infinity;
      }
    }
    return a.rows.absorb(logits, scale);
  }

  __device__ static void rescale(float (&out)[Dim / 2], row_factors const& keep) {
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
