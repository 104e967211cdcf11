#pragma once
// InfLLM-V2's selection in plain fp32, exact mode, for benchmarks: lists as the method would choose them, at no particular speed.
#include "support.cuh"

#include <lacuna/kernels/top_k.hpp>

namespace bench {

/// Which blocks a token reads: the first `initial`, the `local` ones up to its own, and the `best` of the rest. [InfLLM-V2, section 2]
struct selection {
  int block = 64, initial = 1, local = 32, best = 63;
  __host__ __device__ int window() const { return block / 2; }
  __host__ __device__ int stride() const { return block / 4; }
  __host__ __device__ int most_blocks() const { return initial + local + best; }
  __host__ __device__ index_t windows(index_t keys) const { return keys < window() ? 0 : (keys - window()) / stride() + 1; }
};

/// A tile of query rows (16 heads of 4 tokens) times a tile of pooled keys, in 256 threads of 4 x 4 products.
template <int Dim>
struct score_tile {
  static constexpr int heads = 16, tokens = 4, rows = heads * tokens, columns = 64, pitch = Dim + 4, threads = 256;
  float q[rows * pitch], k[columns * pitch], sums[tokens * columns];

  __device__ static int row(int i) { return static_cast<int>(threadIdx.x) / 16 * 4 + i; }
  __device__ static int column(int j) { return static_cast<int>(threadIdx.x) % 16 + 16 * j; }

  __device__ void load_queries(bf16 const* first, int token_stride, int count) {
    for (int i = threadIdx.x; i < rows * Dim; i += threads) {
      int const r = i / Dim, token = r / heads;
      q[r * pitch + i % Dim] = token < count ? static_cast<float>(first[index_t{token} * token_stride + r % heads * Dim + i % Dim]) : 0;
    }
  }

  __device__ void load_keys(float const* first, index_t count) {
    for (int i = threadIdx.x; i < columns * Dim; i += threads) k[i / Dim * pitch + i % Dim] = i / Dim < count ? first[i] : 0;
  }

  __device__ void multiply(float (&products)[4][4]) const {
    for (int d = 0; d < Dim; d += 4)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float4 const a = *reinterpret_cast<float4 const*>(q + row(i) * pitch + d);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          float4 const b = *reinterpret_cast<float4 const*>(k + column(j) * pitch + d);
          products[i][j] += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
        }
      }
  }
};

/// A chunk of one KV head's queries and the pooled keys that they are scored against.
template <int Dim>
struct score_args {
  lacuna::tensor_view<bf16 const, 4> q;
  float const* pooled;  // [windows, Dim] of the KV head
  index_t first_token, tokens, windows;
  int kv_head;
  float scale;
  selection choice;
  float* lse;     // [tokens, heads]
  float* scores;  // [tokens, windows] summed over the heads of the group

  /// Windows that end at or before a token.
  __device__ index_t visible(index_t token) const { return choice.windows(token + 1); }

  /// Calls with_products(first column, products) for all visible columns of a block's rows.
  template <class With>
  __device__ void each_tile(score_tile<Dim>& tile, With const& with_products) const {
    using t = score_tile<Dim>;
    index_t const first = blockIdx.x * index_t{t::tokens};
    int const count = static_cast<int>(lacuna::min<index_t>(t::tokens, tokens - first));
    tile.load_queries(q.row(0, first_token + first, kv_head * t::heads), static_cast<int>(q.stride[1]), count);
    index_t const end = visible(first_token + first + count - 1);
    for (index_t c = 0; c < end; c += t::columns) {
      __syncthreads();
      tile.load_keys(pooled + c * Dim, lacuna::min<index_t>(t::columns, windows - c));
      __syncthreads();
      float products[4][4] = {};
      tile.multiply(products);
      with_products(c, products);
    }
  }
};

static __global__ void pool_windows(bf16 const* keys, int kv_heads, int dim, selection s, index_t windows, float* pooled) {
  index_t const window = blockIdx.x, head = blockIdx.y;
  for (int d = threadIdx.x; d < dim; d += blockDim.x) {
    float sum = 0;
    for (int i = 0; i < s.window(); ++i) sum += static_cast<float>(keys[((window * s.stride() + i) * kv_heads + head) * dim + d]);
    pooled[(head * windows + window) * dim + d] = sum / static_cast<float>(s.window());
  }
}

/// Natural log-sum-exp of every row over its visible windows.
template <int Dim>
__global__ void __launch_bounds__(256) row_lse(score_args<Dim> const a) {
  extern __shared__ float memory[];
  using t = score_tile<Dim>;
  lacuna::softmax_state state[4];
  a.each_tile(*reinterpret_cast<t*>(memory), [&](index_t c, float const (&products)[4][4]) {
    for (int i = 0; i < 4; ++i) {
      index_t const token = blockIdx.x * index_t{t::tokens} + t::row(i) / t::heads, end = a.visible(a.first_token + token);
      for (int j = 0; j < 4; ++j)
        if (c + t::column(j) < end) state[i].absorb(products[i][j] * a.scale);
    }
  });
  for (int i = 0; i < 4; ++i) {
    float lse = state[i].lse();
    for (int step = 8; step > 0; step /= 2) lse = lacuna::merge_lse(lse, __shfl_xor_sync(0xffffffffu, lse, step)).lse;
    index_t const token = blockIdx.x * index_t{t::tokens} + t::row(i) / t::heads;
    if (threadIdx.x % 16 == 0 && token < a.tokens) a.lse[token * t::heads + t::row(i) % t::heads] = lse;
  }
}

/// Softmax weights summed over the heads of the group.
template <int Dim>
__global__ void __launch_bounds__(256) window_scores(score_args<Dim> const a) {
  extern __shared__ float memory[];
  using t = score_tile<Dim>;
  auto& tile = *reinterpret_cast<t*>(memory);
  a.each_tile(tile, [&](index_t c, float const (&products)[4][4]) {
    for (int i = threadIdx.x; i < t::tokens * t::columns; i += t::threads) tile.sums[i] = 0;
    __syncthreads();
    int const token = t::row(0) / t::heads;  // the thread's four rows are heads of one token
    index_t const at = blockIdx.x * index_t{t::tokens} + token, end = a.visible(a.first_token + at);
    for (int j = 0; j < 4; ++j) {
      float sum = 0;
      for (int i = 0; i < 4 && at < a.tokens; ++i) sum += expf(products[i][j] * a.scale - a.lse[at * t::heads + t::row(i) % t::heads]);
      if (c + t::column(j) < end && at < a.tokens) atomicAdd(&tile.sums[token * t::columns + t::column(j)], sum);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < t::tokens * t::columns; i += t::threads) {
      index_t const row = blockIdx.x * index_t{t::tokens} + i / t::columns, column = c + i % t::columns;
      if (row < a.tokens && column < a.windows) a.scores[row * a.windows + column] = tile.sums[i];
    }
  });
}

/// Key blocks of a token, scored by the best of the windows that touch them.
struct scored_blocks {
  selection choice;
  float const* windows;
  index_t own;  // the token's block

  LACUNA_HD index_t size() const { return own + 1; }
  LACUNA_HD lacuna::standing standing_of(index_t b) const {
    return b < choice.initial || b > own - choice.local ? lacuna::standing::forced : lacuna::standing::ranked;
  }
  LACUNA_HD float score(index_t b) const {
    float best = 0;
    for (index_t w = lacuna::max<index_t>(4 * b - 1, 0); w <= 4 * b + 3; ++w) best = lacuna::max(best, windows[w]);
    return best;
  }
};

/// Writes the list of each token of a chunk. Block: one token.
struct write_lists {
  selection choice;
  float const* scores;
  index_t first_token, tokens, windows;
  int head;
  std::int32_t* chosen;  // [tokens, most blocks]
  lacuna::sparse_index index;

  using select = lacuna::top_k<scored_blocks>;
  LACUNA_HD index_t blocks() const { return tokens; }
  LACUNA_HD std::size_t scratch_bytes() const { return select::scratch_bytes; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t token) const {
    int const most = choice.most_blocks();
    scored_blocks const row{choice, scores + token * windows, (first_token + token) / choice.block};
    std::int32_t* const kept = chosen + token * most;
    index_t const count = select{row, most}(team, team.scratch(), kept);
    if (team.rank() > 0) return;
    index_t const at = index.row_at(0, head, first_token + token);
    lacuna::span* const out = index.own + index.own_at(at);
    int spans = 0;
    for (index_t i = 0; i < count; ++i) {
      std::int32_t const begin = kept[i] * choice.block, end = begin + choice.block;
      if (spans && out[spans - 1].end == begin)
        out[spans - 1].end = end;
      else
        out[spans++] = {begin, end};
    }
    index.row_count[at] = spans;
  }
};

/// Layout of the lists of a selection: one a token and KV head.
inline lacuna::index_layout selection_layout(lacuna::attention_shape const& s, selection const& choice) {
  int const most = choice.most_blocks();
  return {static_cast<int>(s.batch), s.kv_heads, s.queries, 1, choice.block, true, {.spans = most, .blocks = most}};
}

/// Selects over whole sequences (batch 1, as many queries as keys, 16 heads a group) and fills the index.
template <int Dim>
void select_blocks(lacuna::cuda_executor const& exec, tensors<Dim> const& data, selection const& choice,
                   lacuna::sparse_index const& index) {
  using tile = score_tile<Dim>;
  auto const& s = data.shape;
  if (s.batch != 1 || s.group() != tile::heads || s.queries != s.keys) std::fprintf(stderr, "select_blocks: another shape\n"), std::exit(1);
  index_t const windows = choice.windows(s.keys), chunk = std::min<index_t>(8192, s.queries);
  buffer<float> const pooled{s.kv_heads * windows * Dim}, lse{chunk * tile::heads}, scores{chunk * windows};
  buffer<std::int32_t> const chosen{chunk * choice.most_blocks()};
  std::vector<std::int32_t> const zeros(s.kv_heads * 2, 0);
  std::vector<lacuna::head_rule> const rules(s.kv_heads);
  check(cudaMemcpy(index.prefix, zeros.data(), s.kv_heads * sizeof(zeros[0]), cudaMemcpyDefault), "copy");
  check(cudaMemcpy(index.shared_count, zeros.data(), zeros.size() * sizeof(zeros[0]), cudaMemcpyDefault), "copy");
  check(cudaMemcpy(index.rules, rules.data(), rules.size() * sizeof(rules[0]), cudaMemcpyDefault), "copy");
  int const shared = static_cast<int>(sizeof(tile));
  check(cudaFuncSetAttribute(row_lse<Dim>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared), "shared memory");
  check(cudaFuncSetAttribute(window_scores<Dim>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared), "shared memory");
  if (windows > 0)
    pool_windows<<<dim3(static_cast<unsigned>(windows), s.kv_heads), Dim, 0, exec.stream()>>>(data.kv().keys.data, s.kv_heads, Dim, choice,
                                                                                              windows, pooled.data());
  for (int head = 0; head < s.kv_heads; ++head)
    for (index_t first = 0; first < s.queries; first += chunk) {
      index_t const count = std::min(chunk, s.queries - first);
      score_args<Dim> const a{data.q(), pooled.data() + head * windows * Dim, first, count, windows, head,
                              1 / std::sqrt(static_cast<float>(Dim)), choice, lse.data(), scores.data()};
      auto const grid = static_cast<unsigned>(lacuna::ceil_div<index_t>(count, tile::tokens));
      row_lse<Dim><<<grid, tile::threads, shared, exec.stream()>>>(a);
      window_scores<Dim><<<grid, tile::threads, shared, exec.stream()>>>(a);
      write_lists const write{choice, scores.data(), first, count, windows, head, chosen.data(), index};
      exec.launch({write.blocks(), 128}, write).or_throw();
    }
  exec.synchronize().or_throw();
}

}  // namespace bench
