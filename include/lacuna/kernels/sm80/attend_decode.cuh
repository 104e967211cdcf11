#pragma once
#include <lacuna/arch/sm80/barrier.cuh>
#include <lacuna/arch/sm80/copy_async.cuh>
#include <lacuna/arch/sm80/mma.cuh>
#include <lacuna/kernels/attend_args.hpp>
#include <lacuna/kernels/decode_parts.hpp>
#include <lacuna/kernels/sm80/arrival.cuh>
#include <lacuna/kernels/sm80/key_walk.cuh>
#include <lacuna/kernels/sm80/padded_rows.cuh>
#include <lacuna/kernels/sm80/part_results.cuh>
#include <lacuna/kernels/tiles/query_tile.cuh>
#include <lacuna/kernels/tiles/softmax_rows.cuh>

namespace lacuna::sm80 {

/// Attention of few query rows over many keys, on the tensor cores of Ampere and everything newer, at the speed at which keys and values
/// arrive. Rows are `tiling.tokens` query tokens x `tiling.group` heads that share a list and a KV head, head fastest: they share one fetch.
///
/// A row tile's list is cut into parts (decode_parts), and a block attends over every blocks_of_tile-th of them. In a block `row_warps` warps
/// of 16 rows each form a team that reads the same keys; the teams take a part's keys one after the other. Each warp brings tiles of `keys`
/// keys, then their values, key by key from wherever they lie, into a ring of its own: nothing but its team waits for it, and other warps'
/// copies are under way meanwhile. The last block of a row tile joins the parts in ascending order.
///
/// Shared memory for dims 128: 4 warps x 6 slots x 4.25 KB = 102 KB + queries 4.25 KB + 3.1 KB, two blocks on an H200 (228 KB), with about
/// 139 KB under way; 5 slots are 92 KB, one block on an RTX 4090 (100 KB). Registers of a thread: output 64, logits 8, operands 8.
template <class Args, int KeyDim, int ValueDim>
struct attend_decode {
  using element = typename Args::element;
  static_assert(sizeof(element) == 2, "the decode kernel takes bf16 and f16");
  static_assert(!Args::turns_on_read, "the decode kernel takes queries and keys that are turned");
  static_assert(KeyDim % 16 == 0 && ValueDim % 16 == 0 && KeyDim <= 256 && ValueDim <= 256,
                "no decode kernel for these head dims: expected multiples of 16 up to 256 (MLA's 576 and 512 have none)");

  static constexpr int widest = max(KeyDim, ValueDim), warps = widest > 128 ? 2 : 4, max_team_size = 32 * warps;
  static constexpr int keys = widest > 64 ? 16 : 32;  // of a warp's tile
  static constexpr int most_rows = 16 * warps, most_tokens = 32;
  static constexpr int fewest_slots = 4, most_slots = 6;

  Args args;
  tiles::query_tiling tiling;   // tokens * group <= most_rows, tokens <= most_tokens
  int row_warps = 1;            // divides warps; 16 * row_warps >= tokens * group
  int slots = fewest_slots;     // of a warp's ring; each holds a tile's keys or its values
  int blocks_of_tile = 1;       // the result does not depend on it
  part_results<ValueDim> parts;

  using query_rows = padded_rows<element, 16, KeyDim>;
  using key_rows = padded_rows<element, keys, KeyDim>;
  using value_rows = padded_rows<element, keys, ValueDim>;
  static constexpr std::size_t slot_bytes = max(sizeof(key_rows), sizeof(value_rows));
  static_assert(warps * fewest_slots * slot_bytes >= sizeof(float) * warps * 16 * (ValueDim + 8), "results of the warps lie in the rings");

  /// The keys of one warp's tile, for whoever masks them.
  struct tile_keys {
    std::int32_t key[keys];
    std::uint32_t tokens[keys];  // that read the key; none past the list's end
    bool empty, masked;          // no key at all; some row must not see some key
  };

  struct alignas(16) shared {
    list_entries list;
    tiles::query_tile queries;
    head_rule rule;
    std::int32_t sums[warps];
    list_place start[warps];  // of each team
    float lse[warps][16];
    tile_keys tiles[warps][4];
    bool last;
  };

  LACUNA_HD std::size_t scratch_bytes() const {
    return sizeof(shared) + row_warps * sizeof(query_rows) + static_cast<std::size_t>(warps * slots) * slot_bytes;
  }
  LACUNA_HD index_t blocks() const { return tiling.tiles(args) * blocks_of_tile; }

  /// Blocks that begin with the first parts of all row tiles come first.
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    auto& s = *reinterpret_cast<shared*>(team.scratch());
    index_t const row_tiles = tiling.tiles(args), tile = block % row_tiles;
    attend(s, tile, static_cast<int>(block / row_tiles));
#else
    (void)team, (void)block;
#endif
  }

#ifdef __CUDACC__
 private:
  /// What a thread carries through a part: two rows of its warp's 16.
  struct accumulator {
    float out[ValueDim / 2] = {};
    tiles::softmax_rows rows;
    int token[2];  // -1: no such row
  };

  /// Where a warp is in its list and in its ring.
  struct stream {
    key_walk walk;
    element const* value_row = nullptr;  // of the lane's key, whose values come next
    int coming = 0, slot = 0;            // the next half tile to bring: keys if even, then values
  };

  __device__ static int lane() { return static_cast<int>(threadIdx.x % 32); }
  __device__ static int warp() { return static_cast<int>(threadIdx.x / 32); }
  __device__ int team() const { return warp() / row_warps; }
  __device__ int row_warp() const { return warp() % row_warps; }
  __device__ int after(int slot) const { return slot + 1 == slots ? 0 : slot + 1; }

  __device__ static query_rows* queries(shared& s) { return reinterpret_cast<query_rows*>(&s + 1); }
  __device__ std::byte* ring(shared& s, int of_warp, int slot) const {
    return reinterpret_cast<std::byte*>(queries(s) + row_warps) + (of_warp * slots + slot) * slot_bytes;
  }
  __device__ float* result_row(shared& s, int of_warp, int row) const {
    return reinterpret_cast<float*>(ring(s, 0, 0)) + (of_warp * 16 + row) * (ValueDim + 8);
  }

  __device__ static std::uint32_t all_tokens(tiles::query_tile const& t) { return 0xffffffffu >> (32 - t.count); }
  __device__ int token_of(tiles::query_tile const& t, int row) const { return row < t.count * tiling.group ? row / tiling.group : -1; }
  __device__ int head_of(tiles::query_tile const& t, int row, int token) const { return t.head + row - token * tiling.group; }

  __device__ void attend(shared& s, index_t tile, int first_part) const {
    if (threadIdx.x == 0) s.queries = tiling.at(args, tile);
    __syncthreads();
    tiles::query_tile const& t = s.queries;
    if (t.count == 0 || first_part >= decode_parts::most(t.s.keys)) return;
    if (threadIdx.x == 0) {
      int const list = args.list_of(t.head);
      s.list.row = args.index.row(t.s, t.b, list, t.first / args.index.tile_rows);
      s.rule = args.index.rules[args.index.head_at(t.b, list)];
    }
    bring_queries(s);
    __syncthreads();
    list_count<max_team_size> const list{s.list, s.sums};
    wait_copies<0>();
    int const count = decode_parts::count(list.total());
    LACUNA_ASSERT(count <= parts.most);
    if (first_part >= count) return;
    arrival const arrivals = parts.arrivals(tile);
    if (count > 1 && threadIdx.x == 0) arrivals.prepare();
    for (int part = first_part; part < count; part += blocks_of_tile) attend_part(s, list, tile, part, count);
    if (count == 1) return;
    __syncthreads();
    if (threadIdx.x == 0) s.last = arrivals.last_of(static_cast<unsigned>(min(count, blocks_of_tile)));
    __syncthreads();
    if (s.last) join(s, tile, count);
  }

  /// Rows that do not exist are zeros.
  __device__ void bring_queries(shared& s) const {
    constexpr int pieces = KeyDim / 8;
    tiles::query_tile const& t = s.queries;
    for (int i = static_cast<int>(threadIdx.x); i < 16 * row_warps * pieces; i += max_team_size) {
      int const row = i / pieces, piece = i % pieces, token = token_of(t, row);
      element const* from = nullptr;
      if (token >= 0) from = args.q.row(t.b, t.s.first_query + t.first + token, head_of(t, row, token)) + piece * 8;
      copy_async(queries(s)[row / 16].memory + row % 16 * query_rows::stride + piece * 8, from, from != nullptr);
    }
    commit_copies();
  }

  __device__ void attend_part(shared& s, list_count<max_team_size> const& list, index_t tile, int part, int count) const {
    span const of_part = decode_parts::part(list.total(), part);
    int const teams = warps / row_warps, each = round_up((of_part.size() + teams - 1) / teams, keys * row_warps);
    for (int i = 0; i < teams; ++i) {
      list_place place;
      if (of_part.begin + i * each < of_part.end && list.find(of_part.begin + i * each, place)) s.start[i] = place;
    }
    __syncthreads();
    accumulator a;
    for (int r = 0; r < 2; ++r) a.token[r] = token_of(s.queries, row_warp() * 16 + lane() / 4 + r * 8);
    std::int32_t const from = of_part.begin + team() * each, past = min(from + each, of_part.end);
    if (from < past) attend_keys(s, a, from, past);
    __syncthreads();  // the rings are free
    put_result(s, a);
    __syncthreads();
    join_teams(s, tile, part, count);
  }

  /// A team's keys of a part.
  __device__ void attend_keys(shared& s, accumulator& a, std::int32_t from, std::int32_t past) const {
    tiles::query_tile const& t = s.queries;
    int const team_keys = keys * row_warps, count = (past - from + team_keys - 1) / team_keys;
    stream in{{s.list, s.start[team()], from, past, t.first_member, all_tokens(t)}};
    for (int i = 0; i < slots - 2; ++i) bring(s, in, count);
    for (int tile = 0, slot = 0; tile < count; ++tile, slot = after(after(slot))) {
      wait_for_tile();
      bring(s, in, count), bring(s, in, count);
      for (int w = team() * row_warps; w < (team() + 1) * row_warps; ++w)
        absorb(s, a, s.tiles[w][tile % 4], *reinterpret_cast<key_rows*>(ring(s, w, slot)),
               *reinterpret_cast<value_rows*>(ring(s, w, after(slot))));
    }
  }

  /// Until the keys and values of the team's oldest tile are there, and the tile before is done with.
  __device__ void wait_for_tile() const {
    if (slots == 4) wait_copies<0>();
    if (slots == 5) wait_copies<1>();
    if (slots == 6) wait_copies<2>();
    if (row_warps == 1)
      __syncwarp();
    else
      sync_threads(1 + team(), row_warps * 32);
  }

  /// Begins to copy the next half of a tile, if there is one.
  __device__ void bring(shared& s, stream& in, int tiles) const {
    std::byte* const to = ring(s, warp(), in.slot);
    if (in.coming / 2 < tiles) {
      if (in.coming % 2 == 0)
        bring_keys(s, in, *reinterpret_cast<key_rows*>(to), s.tiles[warp()][in.coming / 2 % 4]);
      else
        copy_rows(*reinterpret_cast<value_rows*>(to), in.value_row);
    }
    commit_copies();
    ++in.coming, in.slot = after(in.slot);
  }

  __device__ void bring_keys(shared& s, stream& in, key_rows& to, tile_keys& now) const {
    tiles::query_tile const& t = s.queries;
    key_walk::item mine = in.walk.next(row_warp() * keys, row_warps * keys);
    if (lane() >= keys) mine = {};
    bool const listed = mine.tokens != 0;
    int const kv_head = args.shape.kv_head(t.head);
    element const* const key_row = listed ? args.kv.key(t.s, t.b, kv_head, mine.key) : nullptr;
    in.value_row = listed ? args.kv.value(t.s, t.b, kv_head, mine.key) : nullptr;
    copy_rows(to, key_row);
    if (lane() < keys) now.key[lane()] = mine.key, now.tokens[lane()] = mine.tokens;
    bool const empty = !__any_sync(0xffffffffu, listed), masked = __any_sync(0xffffffffu, lane() < keys && !seen_by_all(s, mine));
    if (lane() == 0) now.empty = empty, now.masked = masked;
  }

  __device__ bool seen_by_all(shared const& s, key_walk::item const& k) const {
    tiles::query_tile const& t = s.queries;
    if (k.tokens != all_tokens(t) || (args.index.causal && k.key > t.position)) return false;
    if (args.tree && k.key >= t.s.keys - 64) return false;
    for (int head = t.head; head < t.head + tiling.group; ++head)
      if (!args.mask.sees_all(s.rule, head, t.position, t.position + t.count - 1, k.key, k.key + 1)) return false;
    return true;
  }

  /// Row i comes from where lane i says, or is zeros.
  template <int Dim>
  __device__ static void copy_rows(padded_rows<element, keys, Dim>& to, element const* mine) {
    constexpr int pieces = Dim / 8;
#pragma unroll
    for (int i = 0; i < keys * pieces; i += 32) {
      int const row = (i + lane()) / pieces, piece = (i + lane()) % pieces;
      auto const address = __shfl_sync(0xffffffffu, reinterpret_cast<unsigned long long>(mine), row);
      auto const* const from = reinterpret_cast<element const*>(address);
      copy_async(to.memory + row * to.stride + piece * 8, from + piece * 8, from != nullptr);
    }
  }

  /// Four registers of an accumulator, of one product.
  __device__ static float (&product(float* at))[4] { return reinterpret_cast<float(&)[4]>(*at); }

  /// Online softmax over one tile.
  __device__ void absorb(shared& s, accumulator& a, tile_keys const& now, key_rows const& k, value_rows const& v) const {
    if (now.empty) return;
    float logits[keys / 2] = {};
    multiply_keys(queries(s)[row_warp()], k, logits);
    if (args.logits.soft_cap > 0) tiles::cap(logits, args.logits);
    std::uint32_t read[keys / 8];  // of pairs of keys: ones where some row of the warp reads them
#pragma unroll
    for (std::uint32_t& pair : read) pair = 0xffffffffu;
    if (now.masked) mask(s, a, now, logits, read);
    tiles::row_factors const keep = a.rows.absorb(logits, tiles::logit_scale::of(args.logits));
#pragma unroll
    for (int i = 0; i < ValueDim / 2; ++i) a.out[i] *= keep.row[i / 2 % 2];
    multiply_values(logits, v, read, a);
  }

  __device__ static void multiply_keys(query_rows const& q, key_rows const& k, float (&logits)[keys / 2]) {
#pragma unroll
    for (int d = 0; d < KeyDim; d += 16) {
      std::uint32_t left[4], right[4];
      q.left(left, 0, d);
#pragma unroll
      for (int j = 0; j < keys; j += 16) {
        k.right(right, j, d);
        multiply<element>(product(logits + j / 2), left, right[0], right[1]);
        multiply<element>(product(logits + j / 2 + 4), left, right[2], right[3]);
      }
    }
  }

  /// Values that no row of the warp reads are taken as zeros: 0 * NaN must not reach the rows.
  __device__ static void multiply_values(float const (&weights)[keys / 2], value_rows const& v, std::uint32_t const (&read)[keys / 8],
                                         accumulator& a) {
#pragma unroll
    for (int j = 0; j < keys; j += 16) {
      float const* const w = weights + j / 2;
      std::uint32_t const left[4] = {pack_pair<element>(w[0], w[1]), pack_pair<element>(w[2], w[3]), pack_pair<element>(w[4], w[5]),
                                     pack_pair<element>(w[6], w[7])};
#pragma unroll
      for (int d = 0; d < ValueDim; d += 16) {
        std::uint32_t right[4];
        v.right_transposed(right, j, d);
        multiply<element>(product(a.out + d / 2), left, right[0] & read[j / 8], right[1] & read[j / 8 + 1]);
        multiply<element>(product(a.out + d / 2 + 4), left, right[2] & read[j / 8], right[3] & read[j / 8 + 1]);
      }
    }
  }

  /// Hides what rows must not see, and says which keys are left to some row of the warp.
  __device__ void mask(shared const& s, accumulator const& a, tile_keys const& now, float (&logits)[keys / 2],
                       std::uint32_t (&read)[keys / 8]) const {
    std::uint32_t seen = 0;
    int const column = lane() % 4 * 2;
#pragma unroll
    for (int i = 0; i < keys / 2; ++i) {
      int const r = i / 2 % 2, at = i / 4 * 8 + column + i % 2;
      if (visible(s, a.token[r], row_warp() * 16 + lane() / 4 + r * 8, now.key[at], now.tokens[at]))
        seen |= 1u << at;
      else
        logits[i] = -infinity;
    }
    seen = __reduce_or_sync(0xffffffffu, seen);
#pragma unroll
    for (int i = 0; i < keys / 8; ++i) {
      std::uint32_t const pair = seen >> (i * 8 + column);
      read[i] = (pair & 1 ? 0xffffu : 0) | (pair & 2 ? 0xffff0000u : 0);
    }
  }

  __device__ bool visible(shared const& s, int token, int row, std::int32_t key, std::uint32_t tokens) const {
    tiles::query_tile const& t = s.queries;
    if (token < 0 || !(tokens >> token & 1)) return false;
    std::int32_t const position = t.position + token;
    if (args.index.causal && key > position) return false;
    if (!args.tree.visible(t.s, t.b, t.first + token, key)) return false;
    return args.mask.visible(s.rule, head_of(t, row, token), position, key);
  }

  /// The warp's normalised output and LSE, for join_teams().
  __device__ void put_result(shared& s, accumulator const& a) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      tiles::row_result const result = a.rows.finish(r, tiles::logit_scale::of(args.logits), nullptr, false);
      int const row = lane() / 4 + r * 8;
      if (lane() % 4 == 0) s.lse[warp()][row] = result.lse;
      float* const to = result_row(s, warp(), row) + lane() % 4 * 2;
#pragma unroll
      for (int n = 0; n < ValueDim / 8; ++n)
        *reinterpret_cast<float2*>(to + n * 8) = {a.out[n * 4 + r * 2] * result.norm, a.out[n * 4 + r * 2 + 1] * result.norm};
    }
  }

  /// The part's result from those of the teams, in ascending order of keys; four columns of a row at a time.
  __device__ void join_teams(shared& s, index_t tile, int part, int count) const {
    constexpr int quads = ValueDim / 4;
    int const rows = s.queries.count * tiling.group;
    for (int i = static_cast<int>(threadIdx.x); i < rows * quads; i += max_team_size) {
      int const row = i / quads, column = i % quads * 4;
      joined_row sum;
      for (int w = row / 16; w < warps; w += row_warps) sum.raise(s.lse[w][row % 16]);
      for (int w = row / 16; w < warps; w += row_warps)
        sum.add(s.lse[w][row % 16], *reinterpret_cast<float4 const*>(result_row(s, w, row % 16) + column));
      if (count == 1)
        store(s.queries, row, column, sum.mean(), sum.lse());
      else
        parts.put(tile, part, row, column, sum.mean(), sum.lse());
    }
  }

  /// The rows' results from those of all parts; a warp a row.
  __device__ void join(shared const& s, index_t tile, int count) const {
    for (int row = warp(); row < s.queries.count * tiling.group; row += warps) {
      float const lse = parts.lse_of(tile, count, row);
      for (int first = 0; first < ValueDim; first += 128) {
        float4 const mean = parts.mean_of(tile, count, row, first + lane() * 4, lse);
        if (first + lane() * 4 < ValueDim) store(s.queries, row, first + lane() * 4, mean, lse);
      }
    }
  }

  /// Four columns of the output, the sink's share taken off.
  __device__ void store(tiles::query_tile const& t, int row, int column, float4 const& mean, float lse) const {
    int const token = row / tiling.group, head = head_of(t, row, token);
    index_t const at = t.s.first_query + t.first + token;
    float kept = 1;
    if (args.sink_logits) {
      float const sink = args.sink_logits[head], top = fmaxf(lse, sink);
      float const with_sink = top == -infinity ? top : top + logf(expf(lse - top) + expf(sink - top));
      kept = lse == -infinity ? 0 : expf(lse - with_sink), lse = with_sink;
    }
    element* const out = args.out.row(t.b, at, head) + column;
    float const x[4] = {mean.x, mean.y, mean.z, mean.w};
    for (int i = 0; i < 4; ++i) out[i] = from_float<element>(x[i] * kept);
    if (args.lse && column == 0) args.lse(t.b, at, head) = lse;
  }
#endif
};

}  // namespace lacuna::sm80
