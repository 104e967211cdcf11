#pragma once
#include <lacuna/kernels/sm80/key_stream.cuh>
#include <lacuna/kernels/sm80/key_tile.cuh>
#include <lacuna/kernels/sm80/padded_rows.cuh>
#include <lacuna/kernels/tiles/softmax_rows.cuh>

namespace lacuna::sm80 {

using tiles::logit_scale, tiles::query_tile, tiles::query_tiling, tiles::row_factors, tiles::row_range, tiles::row_result,
    tiles::softmax_rows;

/// Attention of `Rows` query rows at a time over their lists' keys, on the tensor cores of Ampere and everything newer: four warps of
/// Rows / 4 rows multiply; the values of a tile are copied beside the product of its keys, the next tile's keys beside the product of its
/// values. Rows of keys and values are copied one by one, so spans need no alignment, columns are keys like others, and any reader will do.
///
/// Rows are `tiling.tokens` query tokens x `tiling.group` heads that share a list and a KV head, head fastest. A block is a tile of
/// queries, the longest rows of a head first; the result does not depend on the order.
///
/// Shared memory for 128 rows, dims 128: Q 34 KB + K 17 KB + V 17 KB + descriptions of two tiles 3.6 KB + stream 0.7 KB = 72.3 KB, two
/// blocks on an A100 (164 KB) or H200; dims 64: 40.3 KB, two blocks on an RTX 4090 (100 KB). Tiles have 64 keys, 32 where 64 pass 99 KB:
/// 64 rows, dims 256: Q 33 KB + K and V 33 KB + 2.5 KB = 68.5 KB. Registers of a thread, 128 rows, dims 128: output 128, logits 64 (weights
/// 32 in their place), operands 12, softmax 8, of 255.
template <class Args, int KeyDim, int ValueDim, int Rows>
struct attend_prefill {
  static_assert((Rows == 64 || Rows == 128) && !Args::turns_on_read);
  using element = typename Args::element;
  static constexpr int rows = Rows, warps = 4, max_team_size = 32 * warps, warp_rows = rows / warps, m_tiles = warp_rows / 16;
  static constexpr int shared_limit = 99 * 1024;  // of a block on an RTX 4090

  template <int Keys>
  struct shared_of {
    padded_rows<element, rows, KeyDim> q;
    padded_rows<element, Keys, KeyDim> k;
    padded_rows<element, Keys, ValueDim> v;
    key_tile<element, Keys> tiles[2];
    key_stream stream;
    query_tile queries;
    row_range ranges[warps];
    head_rule rule;
    int kv_head;
  };
  static constexpr int keys = sizeof(shared_of<64>) <= shared_limit ? 64 : 32;
  using shared = shared_of<keys>;
  using tile = key_tile<element, keys>;

  /// Whether output and logits fit the registers, and a tile the shared memory. For values of 80 the compiler spills a few of 128 rows.
  static constexpr bool fits = warp_rows * ValueDim <= 32 * 128 && sizeof(shared) <= shared_limit && !(rows == 128 && ValueDim == 80);

  Args args;
  query_tiling tiling;        // tokens * group <= rows
  unsigned group_reciprocal;  // ceil(2^16 / group): row / group is row * group_reciprocal / 2^16

  LACUNA_HD std::size_t scratch_bytes() const { return sizeof(shared); }
  LACUNA_HD index_t blocks() const { return tiling.tiles(args); }

  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    auto& s = *reinterpret_cast<shared*>(team.scratch());
    if (warp() == 0) prepare(s, block);
    __syncthreads();
    if (s.queries.count == 0) return;
    accumulator a{};
    if (!s.tiles[0].empty()) {
      bring_queries(s);
      attend(s, a);
    }
    store(s, a);
#else
    (void)team, (void)block;
#endif
  }

#ifdef __CUDACC__
 private:
  /// What a thread carries through a block's work.
  struct accumulator {
    float out[m_tiles][ValueDim / 2];
    softmax_rows rows[m_tiles];
  };
  using logits_type = float[m_tiles][keys / 2];

  __device__ static int lane() { return static_cast<int>(threadIdx.x % 32); }
  __device__ static int warp() { return static_cast<int>(threadIdx.x / 32); }

  /// Four registers of an accumulator, of one product.
  __device__ static float (&product(float* at))[4] { return reinterpret_cast<float(&)[4]>(*at); }

  /// One warp finds the block's queries and the first tile of their list.
  __device__ void prepare(shared& s, index_t block) const {
    query_tile const t = tiling.at(args, block);
    int const list = args.list_of(t.head);
    if (lane() == 0) s.queries = t, s.kv_head = args.shape.kv_head(t.head), s.rule = args.index.rules[args.index.head_at(t.b, list)];
    if (lane() < warps) s.ranges[lane()] = tiling.rows_of(t, lane() * warp_rows, warp_rows);
    __syncwarp();
    if (t.count == 0) return;
    s.stream.start(args.index.row(t.s, t.b, list, t.first / args.index.tile_rows), tiling.limit_of(args, t));
    describe(s, s.tiles[0]);
  }

  __device__ void bring_queries(shared& s) const {
    query_tile const& t = s.queries;
    s.q.template copy<max_team_size>([&](int row) -> element const* {
      int const token = token_of(row);
      return token < t.count && token < tiling.tokens
                 ? args.q.row(t.b, t.s.first_query + t.first + token, t.head + row - token * tiling.group)
                 : nullptr;
    });
  }

  __device__ int token_of(int row) const { return static_cast<int>(row * group_reciprocal >> 16); }

  /// One warp takes the next keys of the list and finds their rows, a lane a key.
  __device__ void describe(shared& s, tile& to) const {
    listed_key mine[keys / 32];
    std::int32_t begin = 0x7fffffff, end = 0;
#pragma unroll
    for (listed_key& k : mine) {
      k = s.stream.next();
      if (k.key != listed_key::none) begin = min(begin, k.key), end = max(end, k.key + 1);
    }
    begin = __reduce_min_sync(0xffffffffu, begin), end = __reduce_max_sync(0xffffffffu, end);
    bool const seen = begin < end && sees_all(s, begin, end);
    std::uint64_t all = ~std::uint64_t{0}, some = 0;
#pragma unroll
    for (int i = 0; i < keys / 32; ++i) {
      if (!read_by_somebody(s, mine[i], seen)) mine[i].members = 0;
      all &= mine[i].members, some |= mine[i].members;
      place(s, to, lane() + 32 * i, mine[i]);
    }
    all = reduce_and(all), some = ~reduce_and(~some);
    if (lane() == 0) to.read_by_all = all, to.read_by_some = some, to.begin = begin, to.end = end, to.seen = seen;
  }

  __device__ void place(shared const& s, tile& to, int i, listed_key const& k) const {
    query_tile const& t = s.queries;
    to.key[i] = k.key, to.members[i] = k.members;
    to.key_row[i] = k.members ? args.kv.key(t.s, t.b, s.kv_head, k.key) : nullptr;
    to.value_row[i] = k.members ? args.kv.value(t.s, t.b, s.kv_head, k.key) : nullptr;
  }

  __device__ static std::uint64_t reduce_and(std::uint64_t x) {
    unsigned const low = __reduce_and_sync(0xffffffffu, static_cast<unsigned>(x));
    return std::uint64_t{__reduce_and_sync(0xffffffffu, static_cast<unsigned>(x >> 32))} << 32 | low;
  }

  /// True only if the mask hides none of the keys in [begin, end) from any row; a lane a head.
  __device__ bool sees_all(shared const& s, std::int32_t begin, std::int32_t end) const {
    query_tile const& t = s.queries;
    bool sees = true;
    for (int h = lane(); h < tiling.group; h += 32)
      sees = sees && args.mask.sees_all(s.rule, t.head + h, t.position, t.position + t.count - 1, begin, end);
    return __all_sync(0xffffffffu, sees);
  }

  /// Whether a row of the block reads the key; `seen` says that the mask hides it from none. The stream ends where causality does.
  __device__ bool read_by_somebody(shared const& s, listed_key const& k, bool seen) const {
    if (k.key == listed_key::none) return false;
    if (seen && k.members == ~std::uint64_t{0}) return true;
    query_tile const& t = s.queries;
    for (int token = args.index.causal ? max(k.key - t.position, 0) : 0; token < t.count; ++token) {
      if (!(k.members >> ((t.first_member + token) & 63) & 1)) continue;
      for (int h = 0; h < tiling.group; ++h)
        if (args.mask.visible(s.rule, t.head + h, t.position + token, k.key)) return true;
    }
    return false;
  }

  /// Waits for the copies under way; then all threads see them, and all are done with what was read before.
  __device__ static void meet() {
    wait_copies<0>();
    __syncthreads();
  }

  /// All tiles of the block's list.
  __device__ void attend(shared& s, accumulator& a) const {
    s.k.template copy<max_team_size>([&](int r) { return s.tiles[0].key_row[r]; });
    commit_copies();
    for (int i = 0;; ++i) {
      tile const& now = s.tiles[i % 2];
      tile& next = s.tiles[(i + 1) % 2];
      meet();
      s.v.template copy<max_team_size>([&](int r) { return now.value_row[r]; });
      commit_copies();
      if (warp() == i % warps) describe(s, next);
      logits_type logits;
      if (!skips(s, now)) multiply_keys(s, now, logits);
      meet();
      if (!next.empty()) s.k.template copy<max_team_size>([&](int r) { return next.key_row[r]; });
      commit_copies();
      if (!skips(s, now)) multiply_values(s, logits, a);
      if (next.empty()) break;
    }
  }

  /// This warp's rows read nothing of the tile.
  __device__ bool skips(shared const& s, tile const& now) const { return now.skipped(s.ranges[warp()], args.index.causal); }

  /// logits = Q K^T of this warp's rows, capped and masked.
  __device__ void multiply_keys(shared const& s, tile const& now, logits_type& logits) const {
#pragma unroll
    for (int m = 0; m < m_tiles; ++m)
#pragma unroll
      for (float& x : logits[m]) x = 0;
#pragma unroll
    for (int d = 0; d < KeyDim; d += 16) {
      std::uint32_t q[m_tiles][4], k[4];
#pragma unroll
      for (int m = 0; m < m_tiles; ++m) s.q.left(q[m], warp() * warp_rows + m * 16, d);
#pragma unroll
      for (int j = 0; j < keys; j += 16) {
        s.k.right(k, j, d);
#pragma unroll
        for (int m = 0; m < m_tiles; ++m) {
          multiply<element>(product(logits[m] + j / 2), q[m], k[0], k[1]);
          multiply<element>(product(logits[m] + j / 2 + 4), q[m], k[2], k[3]);
        }
      }
    }
    if (args.logits.soft_cap > 0) {
#pragma unroll
      for (int m = 0; m < m_tiles; ++m) tiles::cap(logits[m], args.logits);
    }
    if (now.masked(s.ranges[warp()], args.index.causal)) mask(s, now, logits);
  }

  __device__ void mask(shared const& s, tile const& now, logits_type& logits) const {
#pragma unroll
    for (int r = 0; r < 2 * m_tiles; ++r) {
      std::uint32_t const hidden = hidden_keys(s, now, warp() * warp_rows + r * 8 + lane() / 4);
#pragma unroll
      for (int j = 0; j < keys / 4; ++j)
        if (hidden >> j & 1) logits[r / 2][j / 2 * 4 + r % 2 * 2 + j % 2] = -infinity;
    }
  }

  /// Bit j: the row must not see the thread's j-th key of the tile.
  __device__ std::uint32_t hidden_keys(shared const& s, tile const& now, int row) const {
    query_tile const& t = s.queries;
    int const token = token_of(row), head = t.head + row - token * tiling.group, member = (t.first_member + token) & 63;
    std::int32_t const position = t.position + token, last = args.index.causal ? position : 0x7fffffff;
    std::uint32_t hidden = 0;
#pragma unroll 1
    for (int j = keys / 4 - 1; j >= 0; --j) {
      int const at = j / 2 * 8 + lane() % 4 * 2 + j % 2;
      std::int32_t const key = now.key[at];
      bool const sees = (now.members[at] >> member & 1) && key <= last && (now.seen || args.mask.visible(s.rule, head, position, key));
      hidden = hidden << 1 | !sees;
    }
    return hidden;
  }

  /// Turns logits into weights; out += weights V.
  __device__ void multiply_values(shared const& s, logits_type const& logits, accumulator& a) const {
    logit_scale const scale = logit_scale::of(args.logits);
    row_factors keep[m_tiles];
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) keep[m] = a.rows[m].raise(logits[m], scale);
    rescale(a.out, keep);
#pragma unroll
    for (int j = 0; j < keys; j += 16) {
      std::uint32_t weights[m_tiles][4], v[4];
#pragma unroll
      for (int m = 0; m < m_tiles; ++m)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          weights[m][i] = pack_pair<element>(a.rows[m].weigh(i % 2, logits[m][j / 2 + 2 * i], scale),
                                             a.rows[m].weigh(i % 2, logits[m][j / 2 + 2 * i + 1], scale));
#pragma unroll
      for (int d = 0; d < ValueDim; d += 16) {
        s.v.right_transposed(v, j, d);
#pragma unroll
        for (int m = 0; m < m_tiles; ++m) {
          multiply<element>(product(a.out[m] + d / 2), weights[m], v[0], v[1]);
          multiply<element>(product(a.out[m] + d / 2 + 4), weights[m], v[2], v[3]);
        }
      }
    }
  }

  /// Most tiles raise no row's maximum: then nothing changes.
  __device__ static void rescale(float (&out)[m_tiles][ValueDim / 2], row_factors const (&keep)[m_tiles]) {
    bool same = true;
#pragma unroll
    for (row_factors const& k : keep) same = same && k.row[0] == 1 && k.row[1] == 1;
    if (__all_sync(0xffffffffu, same)) return;
#pragma unroll
    for (int m = 0; m < m_tiles; ++m)
#pragma unroll
      for (int i = 0; i < ValueDim / 2; ++i) out[m][i] *= keep[m].row[i / 2 % 2];
  }

  __device__ void store(shared const& s, accumulator const& a) const {
    query_tile const& t = s.queries;
#pragma unroll
    for (int r = 0; r < 2 * m_tiles; ++r) {
      int const row = warp() * warp_rows + r * 8 + lane() / 4, token = token_of(row), head = t.head + row - token * tiling.group;
      bool const exists = token < t.count && token < tiling.tokens;
      row_result const result =
          a.rows[r / 2].finish(r % 2, logit_scale::of(args.logits), args.sink_logits ? args.sink_logits + head : nullptr, exists);
      if (!exists) continue;
      index_t const query = t.s.first_query + t.first + token;
      element* const out = args.out.row(t.b, query, head);
#pragma unroll
      for (int d = 0; d < ValueDim; d += 8) {
        float const* const pair = a.out[r / 2] + d / 2 + r % 2 * 2;
        *reinterpret_cast<std::uint32_t*>(out + d + lane() % 4 * 2) = pack_pair<element>(pair[0] * result.norm, pair[1] * result.norm);
      }
      if (args.lse && lane() % 4 == 0) args.lse(t.b, query, head) = result.lse;
    }
  }
#endif
};

}  // namespace lacuna::sm80
