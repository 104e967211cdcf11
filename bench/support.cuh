#pragma once
// What the GPU benchmarks share: memory, data, timing and one line a case. By hand:
//   nvcc -std=c++20 -O3 -DNDEBUG -Iinclude -DLACUNA_HAS_SM90A=1 -gencode arch=compute_90a,code=sm_90a -o bench_NAME bench/NAME.cu
#include <lacuna/cuda.cuh>
#include <lacuna/lacuna.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

namespace bench {

using lacuna::index_t;
using bf16 = lacuna::bfloat16;

inline void check(cudaError_t code, char const* doing) {
  if (code != cudaSuccess) std::fprintf(stderr, "%s: %s\n", doing, cudaGetErrorString(code)), std::exit(1);
}

/// Device memory that is freed with it.
template <class T>
class buffer {
 public:
  explicit buffer(index_t count) : count_{count} { check(cudaMalloc(&data_, std::max<index_t>(count, 1) * sizeof(T)), "cudaMalloc"); }
  explicit buffer(std::vector<T> const& values) : buffer(static_cast<index_t>(values.size())) {
    check(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyDefault), "copy");
  }
  ~buffer() { cudaFree(data_); }
  buffer(buffer const&) = delete;
  buffer& operator=(buffer const&) = delete;

  T* data() const { return data_; }
  index_t size() const { return count_; }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    check(cudaMemcpy(values.data(), data_, values.size() * sizeof(T), cudaMemcpyDefault), "copy");
    return values;
  }

 private:
  T* data_ = nullptr;
  index_t count_;
};

/// A sum of 12 uniforms less 6: near normal, variance 1, a function of seed and place.
__host__ __device__ inline float normal_at(unsigned seed, index_t i) {
  unsigned h = seed * 0x9e3779b9u ^ static_cast<unsigned>(i * 2654435761u) ^ static_cast<unsigned>(i >> 32);
  float sum = -6;
  for (int k = 0; k < 12; ++k) h = h * 1664525u + 1013904223u, h ^= h >> 15, sum += static_cast<float>(h >> 8) * 0x1p-24f;
  return sum;
}

/// Topics of the data: every `tokens` neighbouring tokens share a random direction, one for each KV head, whose coordinates are `strength`
/// times as large as the noise. 0: noise alone.
struct topics {
  float strength = 0;
  int tokens = 512;
};

/// x[token, head, dim] = noise + topic, the topic of KV head head / group.
static __global__ void fill_tokens(bf16* x, index_t count, int heads, int dim, int group, unsigned seed, topics t) {
  index_t const step = index_t{gridDim.x} * blockDim.x;
  for (index_t i = blockIdx.x * index_t{blockDim.x} + threadIdx.x; i < count; i += step) {
    index_t const token = i / dim / heads, kv_head = i / dim % heads / group;
    float const topic = t.strength > 0 ? t.strength * normal_at(77, (token / t.tokens * heads / group + kv_head) * dim + i % dim) : 0;
    x[i] = bf16{normal_at(seed, i) + topic};
  }
}

/// Queries, keys, values and results of a shape: noise, with topics in queries and keys if asked.
template <int Dim>
class tensors {
 public:
  explicit tensors(lacuna::attention_shape s, topics t = {})
      : shape{with_dims(s)},
        q_{s.batch * s.queries * s.query_heads * Dim},
        k_{s.batch * s.keys * s.kv_heads * Dim},
        v_{s.batch * s.keys * s.kv_heads * Dim},
        out_{s.batch * s.queries * s.query_heads * Dim},
        lse_{s.batch * s.queries * s.query_heads} {
    fill_tokens<<<2048, 256>>>(q_.data(), q_.size(), s.query_heads, Dim, s.group(), 1, t);
    fill_tokens<<<2048, 256>>>(k_.data(), k_.size(), s.kv_heads, Dim, 1, 2, t);
    fill_tokens<<<2048, 256>>>(v_.data(), v_.size(), s.kv_heads, Dim, 1, 3, {});
    check(cudaDeviceSynchronize(), "fill");
  }

  lacuna::attention_shape const shape;
  using reader = lacuna::contiguous_kv<bf16>;

  lacuna::tensor_view<bf16 const, 4> q() const { return {q_.data(), shape.batch, shape.queries, shape.query_heads, Dim}; }
  lacuna::tensor_view<bf16, 4> out() const { return {out_.data(), shape.batch, shape.queries, shape.query_heads, Dim}; }
  lacuna::tensor_view<float, 3> lse() const { return {lse_.data(), shape.batch, shape.queries, shape.query_heads}; }
  reader kv() const {
    return {{k_.data(), shape.batch, shape.keys, shape.kv_heads, Dim}, {v_.data(), shape.batch, shape.keys, shape.kv_heads, Dim}};
  }

  /// A call over an index, for launchers below the facade.
  lacuna::attend_args<bf16, reader> args(lacuna::sparse_index const& index) const {
    lacuna::attend_args<bf16, reader> a{};
    a.shape = shape, a.index = index, a.q = q(), a.kv = kv(), a.out = out(), a.lse = lse();
    a.logits.scale = 1 / std::sqrt(static_cast<float>(Dim));
    return a;
  }

  buffer<bf16> const& out_memory() const { return out_; }
  buffer<float> const& lse_memory() const { return lse_; }

 private:
  static lacuna::attention_shape with_dims(lacuna::attention_shape s) {
    s.key_dim = s.value_dim = Dim;
    return s;
  }

  buffer<bf16> q_, k_, v_, out_;
  buffer<float> lse_;
};

/// Times of some runs, ascending, in milliseconds.
struct timing {
  std::vector<float> sorted;
  double median() const { return sorted[sorted.size() / 2]; }
};

/// Two runs to warm up, then `repeats` that count.
template <class Run>
timing milliseconds(lacuna::cuda_executor const& exec, int repeats, Run const& run) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "event"), check(cudaEventCreate(&end), "event");
  timing t;
  for (int i = -2; i < repeats; ++i) {
    check(cudaEventRecord(begin, exec.stream()), "record");
    run();
    check(cudaEventRecord(end, exec.stream()), "record");
    check(cudaEventSynchronize(end), "run");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "time");
    if (i >= 0) t.sorted.push_back(ms);
  }
  cudaEventDestroy(begin), cudaEventDestroy(end);
  std::sort(t.sorted.begin(), t.sorted.end());
  return t;
}

/// The line of a case that multiplies: `pairs` (query, key) pairs over all heads, 4 * dim FLOP each.
inline void report_pairs(char const* id, timing const& t, double pairs, int dim, char const* note = "") {
  std::printf("%-5s %9.3f ms %8.1f TFLOP/s  (best %.3f, worst %.3f)  %s\n", id, t.median(), 4.0 * dim * pairs / t.median() * 1e-9,
              t.sorted.front(), t.sorted.back(), note);
}

/// The line of a case that moves bytes.
inline void report_bytes(char const* id, timing const& t, double bytes, char const* note = "") {
  std::printf("%-5s %9.3f ms %8.2f TB/s  (best %.3f, worst %.3f)  %s\n", id, t.median(), bytes / t.median() * 1e-9, t.sorted.front(),
              t.sorted.back(), note);
}

/// (query, key) pairs that an index in device memory makes attention weigh, over all query heads.
inline double visited_pairs(lacuna::index_layout const& layout, std::byte const* memory, lacuna::attention_shape const& shape) {
  std::vector<std::byte> image(lacuna::index_bytes(layout));
  check(cudaMemcpy(image.data(), memory, image.size(), cudaMemcpyDefault), "copy");
  return static_cast<double>(lacuna::visited_pairs(lacuna::make_index(layout, image.data()), shape).visited);
}

/// The cases that the command line names; all if it names none.
class case_list {
 public:
  case_list(int argc, char** argv) : asked_{argv + 1, argv + argc} { std::setvbuf(stdout, nullptr, _IOLBF, 0); }
  bool wants(char const* id) const { return asked_.empty() || asked_.contains(id); }

 private:
  std::set<std::string> asked_;
};

/// A stream for the whole program.
inline lacuna::cuda_executor make_executor() {
  cudaStream_t stream;
  check(cudaStreamCreate(&stream), "stream");
  return lacuna::cuda_executor{stream};
}

}  // namespace bench
