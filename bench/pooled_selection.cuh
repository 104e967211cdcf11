#pragma once
#include "support.cuh"

namespace bench {

/// How many blocks of 64 keys a token reads: the first ones, its own and those before it, and the best of the others by score.
struct pooled_amounts {
  int first = 1, local = 32, top = 63;
  int blocks() const { return first + local + top; }
};

/// InfLLM-V2's selection in float32, written plainly: stands for the pattern. Means of 32 keys every 16; softmax of all visible means a
/// query head; summed over the 16 heads of a group; a block scores the best of the five windows that touch it. [InfLLM-V2, section 2]
/// One sequence with as many queries as keys, 128 dims, groups of 16.
class pooled_selection {
 public:
  static constexpr int dim = 128, group = 16, window = 32, stride = 16, block = 64;

  static given_lists<block> lists(int kv_heads, pooled_amounts const& a) {
    return {kv_heads, 1, {.spans = a.top + 2, .blocks = a.blocks()}};
  }

  pooled_selection(tensor<bf16> const& q, tensor<bf16> const& k, pooled_amounts amounts)
      : q_{q.view()},
        k_{k.view()},
        amounts_{amounts},
        windows_{std::max<index_t>(0, (tokens() - window) / stride + (tokens() >= window))},
        pooled_(kv_heads() * windows_ * dim),
        lse_(tokens() * group),
        scores_(tokens() * windows_) {}

  index_t tokens() const { return q_.extent[1]; }
  int kv_heads() const { return static_cast<int>(k_.extent[2]); }

  /// Fills an index of lists(kv_heads, amounts).
  void fill(cudaStream_t stream, lacuna::sparse_index const& x) const;

 private:
  lacuna::tensor_view<bf16, 4> q_, k_;
  pooled_amounts amounts_;
  index_t windows_;
  buffer<float> pooled_, lse_, scores_;
};

namespace detail {

using selection = pooled_selection;

/// Block (window, KV head), a thread a dim.
static __global__ void pool_keys(lacuna::tensor_view<bf16, 4> k, float* pooled) {
  float sum = 0;
  for (int i = 0; i < selection::window; ++i)
    sum += float(k.data[((blockIdx.x * index_t{selection::stride} + i) * k.extent[2] + blockIdx.y) * selection::dim + threadIdx.x]);
  pooled[(blockIdx.y * index_t{gridDim.x} + blockIdx.x) * selection::dim + threadIdx.x] = sum / selection::window;
}

/// A block's 128 query rows (8 tokens of a group) times 64 windows at a time; a thread multiplies 8 rows by 4 windows, a warp has all rows
/// of its token.
struct product_tile {
  static constexpr int rows = 128, tokens = rows / selection::group, columns = 64, pitch = selection::dim + 4, threads = 256;
  float q[rows][pitch];
  float k[columns][pitch];

  __device__ static int first_row() { return threadIdx.x / 16 * 8; }
  __device__ static int column(int c) { return threadIdx.x % 16 + 16 * c; }
  __device__ static index_t first_token() { return blockIdx.x * index_t{tokens}; }
  __device__ static index_t token() { return first_token() + first_row() / selection::group; }
  __device__ static index_t lse_at(int r) { return token() * selection::group + (first_row() + r) % selection::group; }

  __device__ void load_queries(lacuna::tensor_view<bf16, 4> const& from, int kv_head) {
    for (int i = threadIdx.x; i < rows * selection::dim; i += threads) {
      int const row = i / selection::dim, d = i % selection::dim;
      index_t const at = lacuna::min(first_token() + row / selection::group, from.extent[1] - 1);
      q[row][d] = float(from.data[(at * from.extent[2] + kv_head * selection::group + row % selection::group) * selection::dim + d]);
    }
  }

  __device__ void load_windows(float const* pooled, index_t first, index_t windows) {
    __syncthreads();
    for (int i = threadIdx.x; i < columns * selection::dim; i += threads)
      k[i / selection::dim][i % selection::dim] = first + i / selection::dim < windows ? pooled[first * selection::dim + i] : 0;
    __syncthreads();
  }

  /// This thread's logits.
  __device__ void multiply(float (&x)[8][4]) const {
    for (auto& row : x)
      for (float& value : row) value = 0;
#pragma unroll 2
    for (int d = 0; d < selection::dim; d += 4) {
      float4 a[8], b[4];
      for (int r = 0; r < 8; ++r) a[r] = *reinterpret_cast<float4 const*>(&q[first_row() + r][d]);
      for (int c = 0; c < 4; ++c) b[c] = *reinterpret_cast<float4 const*>(&k[column(c)][d]);
      for (int r = 0; r < 8; ++r)
        for (int c = 0; c < 4; ++c) x[r][c] += a[r].x * b[c].x + a[r].y * b[c].y + a[r].z * b[c].z + a[r].w * b[c].w;
    }
    for (auto& row : x)
      for (float& value : row) value *= 0.08838834764831845f;  // 1 / sqrt(128)
  }

  /// Calls visit(window, seen, column, logits) for this thread's windows, up to the last that any token of the block sees.
  template <class Visit>
  __device__ void each_window(float const* pooled, index_t windows, Visit const& visit) {
    index_t const end = lacuna::min(windows, (first_token() + tokens - selection::window) / selection::stride + 1);
    for (index_t first = 0; first < end; first += columns) {
      load_windows(pooled, first, windows);
      float x[8][4];
      multiply(x);
      for (int c = 0; c < 4; ++c) {
        index_t const at = first + column(c);
        visit(at, at < windows && at * selection::stride + selection::window <= token() + 1, c, x);
      }
    }
  }
};

/// Each row's log-sum-exp over the windows that its token sees. Pooled: of the KV head.
static __global__ void __launch_bounds__(product_tile::threads)
    window_lse(lacuna::tensor_view<bf16, 4> q, float const* pooled, int kv_head, index_t windows, float* to) {
  extern __shared__ std::byte memory[];
  auto& tile = *reinterpret_cast<product_tile*>(memory);
  tile.load_queries(q, kv_head);
  lacuna::softmax_state state[8];
  tile.each_window(pooled, windows, [&](index_t, bool seen, int c, float const(&x)[8][4]) {
    for (int r = 0; r < 8 && seen; ++r) state[r].absorb(x[r][c]);
  });
  for (int r = 0; r < 8; ++r) {
    float lse = state[r].lse();
    for (int step = 1; step < 16; step *= 2) lse = lacuna::merge_lse(lse, __shfl_xor_sync(0xffffffffu, lse, step)).lse;
    if (threadIdx.x % 16 == 0 && tile.token() < q.extent[1]) to[tile.lse_at(r)] = lse;
  }
}

/// Weights of the windows, summed over the group: [token, window]; -1 where a token does not see the window.
static __global__ void __launch_bounds__(product_tile::threads)
    window_sums(lacuna::tensor_view<bf16, 4> q, float const* pooled, int kv_head, index_t windows, float const* lse, float* sums) {
  extern __shared__ std::byte memory[];
  auto& tile = *reinterpret_cast<product_tile*>(memory);
  tile.load_queries(q, kv_head);
  bool const there = tile.token() < q.extent[1];
  float row_lse[8];
  for (int r = 0; r < 8; ++r) row_lse[r] = there ? lse[tile.lse_at(r)] : 0;
  tile.each_window(pooled, windows, [&](index_t at, bool seen, int c, float const(&x)[8][4]) {
    float weight = 0;
    for (int r = 0; r < 8; ++r) weight += expf(x[r][c] - row_lse[r]);
    weight += __shfl_xor_sync(0xffffffffu, weight, 16);  // the other eight heads of the token
    if (threadIdx.x % 32 < 16 && at < windows && there) sums[tile.token() * windows + at] = seen ? weight : -1;
  });
}

/// Words of shared memory of a warp that chooses: a key a block, then a bit a block.
LACUNA_HD constexpr index_t chooser_words(index_t tokens) { return lacuna::ceil_div(tokens, index_t{selection::block} * 32) * 33; }

/// A block's score as an integer that grows with it; 0 if it does not compete.
static __device__ unsigned block_key(float const* sums, index_t windows, index_t token, int b) {
  float best = -1;
  for (index_t w = lacuna::max(0, 4 * b - 1); w <= lacuna::min<index_t>(4 * b + 3, windows - 1); ++w)
    if (w * selection::stride + selection::window <= token + 1) best = fmaxf(best, sums[w]);
  return best < 0 ? 0 : __float_as_uint(best) + 1;
}

/// The least key of the `count` best of [0, end), found by bisection; at least 1. The whole warp.
static __device__ unsigned least_kept(unsigned const* key, int end, int count) {
  unsigned bound = 0;
  for (unsigned bit = 1u << 31; bit; bit /= 2) {
    int n = 0;
    for (int b = threadIdx.x % 32; b < end; b += 32) n += key[b] >= (bound | bit);
    if (static_cast<int>(__reduce_add_sync(0xffffffffu, n)) >= count) bound |= bit;
  }
  return lacuna::max(bound, 1u);
}

/// Writes runs of set bits of [0, end) as spans; returns how many.
static __device__ int write_spans(unsigned const* taken, int end, lacuna::span* spans) {
  int count = 0;
  for (int b = 0; b < end; ++b) {
    if (!(taken[b / 32] >> b % 32 & 1)) continue;
    if (count > 0 && spans[count - 1].end == b * selection::block)
      spans[count - 1].end += selection::block;
    else
      spans[count++] = {b * selection::block, (b + 1) * selection::block};
  }
  return count;
}

/// A warp a token: the best blocks, ties to the lower one, with the forced ones.
static __global__ void choose_blocks(float const* sums, index_t windows, index_t tokens, int kv_head, pooled_amounts amounts,
                                     lacuna::sparse_index x) {
  extern __shared__ std::byte memory[];
  int const lane = threadIdx.x % 32;
  index_t const token = blockIdx.x * index_t{blockDim.x / 32} + threadIdx.x / 32;
  if (token >= tokens) return;
  unsigned* const key = reinterpret_cast<unsigned*>(memory) + threadIdx.x / 32 * chooser_words(tokens);
  unsigned* const taken = key + chooser_words(tokens) / 33 * 32;
  int const own = static_cast<int>(token / selection::block);
  auto const forced = [&](int b) { return b < amounts.first || b > own - amounts.local; };
  for (int b = lane; b <= own; b += 32) key[b] = forced(b) ? 0 : block_key(sums + token * windows, windows, token, b);
  __syncwarp();
  unsigned const least = least_kept(key, own + 1, amounts.top);
  int above = 0;
  for (int b = lane; b <= own; b += 32) above += key[b] > least;
  int ties_left = amounts.top - static_cast<int>(__reduce_add_sync(0xffffffffu, above));
  for (int w = 0; w <= own / 32; ++w) {
    int const b = w * 32 + lane;
    unsigned const ties = __ballot_sync(0xffffffffu, b <= own && key[b] == least);
    bool const tie_kept = (ties >> lane & 1) && __popc(ties & ((1u << lane) - 1)) < ties_left;
    unsigned const all = __ballot_sync(0xffffffffu, b <= own && (forced(b) || key[b] > least || tie_kept));
    if (lane == 0) taken[w] = all;
    ties_left -= min(ties_left, __popc(ties));
  }
  if (lane != 0) return;
  index_t const row = x.row_at(0, kv_head, token);
  x.row_count[row] = write_spans(taken, own + 1, x.own + x.own_at(row));
  if (token == 0) x.prefix[kv_head] = 0, x.rules[kv_head] = {}, x.shared_count[2 * kv_head] = x.shared_count[2 * kv_head + 1] = 0;
}

}  // namespace detail

inline void pooled_selection::fill(cudaStream_t stream, lacuna::sparse_index const& x) const {
  constexpr int bytes = sizeof(detail::product_tile), threads = detail::product_tile::threads, warps = 4;
  check(cudaFuncSetAttribute(detail::window_lse, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "selection");
  check(cudaFuncSetAttribute(detail::window_sums, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "selection");
  auto const grid = [&](index_t tokens_a_block) { return static_cast<unsigned>(lacuna::ceil_div(tokens(), tokens_a_block)); };
  unsigned const tiles = grid(detail::product_tile::tokens);
  std::size_t const chooser_bytes = warps * detail::chooser_words(tokens()) * sizeof(unsigned);
  if (windows_ > 0) detail::pool_keys<<<dim3(static_cast<unsigned>(windows_), kv_heads()), dim, 0, stream>>>(k_, pooled_.data);
  for (int h = 0; h < kv_heads(); ++h) {
    float const* const pooled = pooled_.data + h * windows_ * dim;
    detail::window_lse<<<tiles, threads, bytes, stream>>>(q_, pooled, h, windows_, lse_.data);
    detail::window_sums<<<tiles, threads, bytes, stream>>>(q_, pooled, h, windows_, lse_.data, scores_.data);
    detail::choose_blocks<<<grid(warps), warps * 32, chooser_bytes, stream>>>(scores_.data, windows_, tokens(), h, amounts_, x);
  }
  check(cudaGetLastError(), "selection");
}

}  // namespace bench
