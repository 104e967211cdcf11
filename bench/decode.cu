// Decode through the sparse kernel: target A3 with other shapes beside it (L2 flushed before each run), and H3-like calls on short lists
// inside a CUDA graph. Prints a line a case: id, milliseconds, TB/s over the keys and values that the lists name, each counted once.
#include <lacuna/cuda.cuh>
#include <lacuna/kernels/sm80/launch_decode.cuh>
#include <lacuna/lacuna.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

namespace {

using bf16 = lacuna::bfloat16;
using lacuna::index_t;

void check(cudaError_t code, char const* what) {
  if (code != cudaSuccess) std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code)), std::exit(1);
}

__global__ void fill(bf16* x, index_t n, unsigned seed) {
  for (index_t i = blockIdx.x * index_t{blockDim.x} + threadIdx.x; i < n; i += index_t{gridDim.x} * blockDim.x) {
    float sum = 0;  // sum of uniforms: near normal, variance 1
    unsigned h = seed ^ static_cast<unsigned>(i * 2654435761u) ^ static_cast<unsigned>(i >> 32);
    for (int k = 0; k < 12; ++k) h = h * 1664525u + 1013904223u, h ^= h >> 15, sum += static_cast<float>(h >> 8) * 0x1p-24f;
    x[i] = bf16{sum - 6};
  }
}

/// Device memory that is freed with it.
template <class T>
struct buffer {
  T* data = nullptr;
  explicit buffer(std::size_t count) { check(cudaMalloc(&data, std::max<std::size_t>(count, 1) * sizeof(T)), "cudaMalloc"); }
  explicit buffer(std::vector<T> const& values) : buffer(values.size()) {
    check(cudaMemcpy(data, values.data(), values.size() * sizeof(T), cudaMemcpyDefault), "copy");
  }
  buffer(buffer const&) = delete;
  buffer& operator=(buffer const&) = delete;
  ~buffer() { cudaFree(data); }
};

/// Spans of one row, the same for all heads: what a pattern would have chosen.
using span_list = std::vector<lacuna::span>;

span_list dense_list() { return {{0, 0x7fffffff}}; }

/// 256 sinks, 256 random 8-token chunks, a window of 1024. [InfiniteHiP 3K]
span_list chunk_list(index_t keys, unsigned seed) {
  std::vector<int> chunk(static_cast<std::size_t>(keys - 256 - 1024) / 8);
  std::iota(chunk.begin(), chunk.end(), 32);
  std::mt19937 engine{seed};
  span_list list{{0, 256}};
  std::vector<int> kept;
  std::sample(chunk.begin(), chunk.end(), std::back_inserter(kept), 256, engine);
  for (int const c : kept) list.push_back({c * 8, c * 8 + 8});
  list.push_back({static_cast<int>(keys) - 1024, static_cast<int>(keys)});
  return list;
}

index_t keys_in(span_list const& list, index_t keys) {
  index_t sum = 0;
  for (auto const& s : list) sum += std::min<index_t>(s.end, keys) - std::min<index_t>(s.begin, keys);
  return sum;
}

/// An index of one list for the layer and every sequence.
struct layer_index {
  lacuna::index_layout layout;
  buffer<std::byte> memory;
  lacuna::sparse_index index;

  layer_index(lacuna::attention_shape const& s, span_list const& list)
      : layout{static_cast<int>(s.batch), 1, s.queries, 64, 1, true, {.spans = static_cast<int>(list.size())}},
        memory{lacuna::index_bytes(layout)},
        index{lacuna::make_index(layout, memory.data)} {
    std::vector<lacuna::span> spans;
    for (index_t b = 0; b < s.batch; ++b) spans.insert(spans.end(), list.begin(), list.end());
    std::vector<std::int32_t> const counts(s.batch, static_cast<std::int32_t>(list.size()) | lacuna::sparse_index::alone);
    std::vector<lacuna::head_rule> const rules(s.batch);
    check(cudaMemcpy(index.own, spans.data(), spans.size() * sizeof(spans[0]), cudaMemcpyDefault), "spans");
    check(cudaMemcpy(index.row_count, counts.data(), counts.size() * sizeof(counts[0]), cudaMemcpyDefault), "counts");
    check(cudaMemcpy(index.rules, rules.data(), rules.size() * sizeof(rules[0]), cudaMemcpyDefault), "rules");
  }
};

/// Queries, keys, values and results of a shape.
template <int Dim>
struct problem {
  using contiguous = lacuna::contiguous_kv<bf16>;
  lacuna::attention_shape shape;
  buffer<bf16> q, k, v, out;
  buffer<float> lse;
  std::unique_ptr<buffer<std::int32_t>> key_lengths;

  explicit problem(lacuna::attention_shape s, std::vector<std::int32_t> const& lengths = {})
      : shape{s},
        q(s.batch * s.queries * s.query_heads * Dim),
        k(s.batch * s.keys * s.kv_heads * Dim),
        v(s.batch * s.keys * s.kv_heads * Dim),
        out(s.batch * s.queries * s.query_heads * Dim),
        lse(s.batch * s.queries * s.query_heads) {
    shape.key_dim = shape.value_dim = Dim;
    fill<<<1024, 256>>>(q.data, s.batch * s.queries * s.query_heads * Dim, 1);
    fill<<<1024, 256>>>(k.data, s.batch * s.keys * s.kv_heads * Dim, 2);
    fill<<<1024, 256>>>(v.data, s.batch * s.keys * s.kv_heads * Dim, 3);
    if (!lengths.empty()) key_lengths = std::make_unique<buffer<std::int32_t>>(lengths);
    check(cudaDeviceSynchronize(), "fill");
  }

  contiguous kv() const {
    return {{k.data, shape.batch, shape.keys, shape.kv_heads, Dim}, {v.data, shape.batch, shape.keys, shape.kv_heads, Dim}};
  }

  template <class Kv>
  lacuna::attend_args<bf16, Kv> args(lacuna::sparse_index const& index, Kv const& kv) const {
    lacuna::attend_args<bf16, Kv> a{};
    a.shape = shape, a.index = index, a.kv = kv;
    a.lengths.key_lengths = key_lengths ? key_lengths->data : nullptr;
    a.q = {q.data, shape.batch, shape.queries, shape.query_heads, Dim};
    a.out = {out.data, shape.batch, shape.queries, shape.query_heads, Dim};
    a.lse = {lse.data, shape.batch, shape.queries, shape.query_heads};
    a.logits.scale = 1 / std::sqrt(float(Dim));
    return a;
  }

  std::vector<float> read() const {
    std::vector<bf16> got(shape.batch * shape.queries * shape.query_heads * Dim);
    check(cudaMemcpy(got.data(), out.data, got.size() * sizeof(bf16), cudaMemcpyDefault), "read");
    std::vector<float> values(got.size());
    std::transform(got.begin(), got.end(), values.begin(), [](bf16 x) { return float(x); });
    return values;
  }
};

class stopwatch {
 public:
  explicit stopwatch(cudaStream_t stream) : stream_{stream} { cudaEventCreate(&begin_), cudaEventCreate(&end_); }
  ~stopwatch() { cudaEventDestroy(begin_), cudaEventDestroy(end_); }
  template <class Work>
  float milliseconds(Work const& work) {
    cudaEventRecord(begin_, stream_);
    work();
    cudaEventRecord(end_, stream_);
    check(cudaEventSynchronize(end_), "run");
    float ms = 0;
    cudaEventElapsedTime(&ms, begin_, end_);
    return ms;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_, end_;
};

void report(char const* id, std::vector<float> times, double bytes, char const* note) {
  std::sort(times.begin(), times.end());
  double const ms = times[times.size() / 2];
  std::printf("%-7s %9.4f ms %6.2f TB/s  (best %.4f, worst %.4f) %s\n", id, ms, bytes / ms * 1e-9, times.front(), times.back(), note);
}

/// Largest error of a row against the portable body, relative to its norm.
template <int Dim, class Args>
double against_portable(lacuna::cuda_executor const& exec, problem<Dim> const& p, Args const& args) {
  auto const got = p.read();
  int const splits = static_cast<int>(std::max<index_t>(1, p.shape.keys / 2048));
  index_t const rows = p.shape.batch * p.shape.query_heads * p.shape.queries * splits;
  buffer<float> const memory(rows * (Dim + 1));
  lacuna::attend_parts const parts{splits, 2048, memory.data, memory.data + rows * Dim};
  lacuna::attend_row<Args> const body{args, parts};
  lacuna::merge_rows<Args> const merge{args, parts};
  exec.launch({body.blocks(), 128}, body).or_throw();
  exec.launch({merge.blocks(), 128}, merge).or_throw();
  exec.synchronize().or_throw();
  auto const right = p.read();
  double worst = 0;
  for (std::size_t row = 0; row < right.size() / Dim; ++row) {
    double error = 0, norm = 0;
    for (std::size_t i = row * Dim; i < (row + 1) * Dim; ++i)
      error += (got[i] - right[i]) * (got[i] - right[i]), norm += right[i] * right[i];
    double const relative = std::sqrt(error / norm);
    if (!(relative <= worst)) worst = relative;
  }
  return worst;
}

/// One call at a time, the L2 cache full of something else.
template <int Dim, class Kv>
void flushed(char const* id, lacuna::cuda_executor const& exec, problem<Dim> const& p, Kv const& kv, span_list const& list, double bytes) {
  layer_index const x{p.shape, list};
  auto const args = p.args(x.index, kv);
  using args_type = lacuna::attend_args<bf16, Kv>;
  buffer<std::byte> const workspace(lacuna::sm80::decode_workspace_bytes<args_type, Dim, Dim>(x.layout, p.shape));
  constexpr std::size_t flush_bytes = std::size_t{512} << 20;
  buffer<std::byte> const other(flush_bytes);
  stopwatch watch{exec.stream()};
  std::vector<float> times;
  for (int r = 0; r < 13; ++r) {
    cudaMemsetAsync(other.data, r, flush_bytes, exec.stream());
    float const ms = watch.milliseconds([&] { lacuna::sm80::launch_decode<Dim, Dim>(exec, args, x.layout, p.shape, workspace.data).or_throw(); });
    if (r >= 2) times.push_back(ms);
  }
  double const error = against_portable(exec, p, args);
  char note[64];
  std::snprintf(note, sizeof note, "error %.1e %s", error, error < 1e-2 ? "ok" : "WRONG");
  report(id, times, bytes, note);
}

/// 32 calls in a graph, each over a list of its own, so that its keys come from memory.
template <int Dim>
void recorded(char const* id, lacuna::cuda_executor const& exec, problem<Dim> const& p) {
  constexpr int calls = 32;
  using args_type = lacuna::attend_args<bf16, lacuna::contiguous_kv<bf16>>;
  std::vector<std::unique_ptr<layer_index>> lists;
  double bytes = 0;
  for (int i = 0; i < calls; ++i) {
    span_list const list = chunk_list(p.shape.keys, i);
    bytes = 4.0 * Dim * p.shape.kv_heads * keys_in(list, p.shape.keys);
    lists.push_back(std::make_unique<layer_index>(p.shape, list));
  }
  buffer<std::byte> const workspace(lacuna::sm80::decode_workspace_bytes<args_type, Dim, Dim>(lists[0]->layout, p.shape));
  auto const launch = [&](int i) {
    lacuna::sm80::launch_decode<Dim, Dim>(exec, p.args(lists[i]->index, p.kv()), lists[i]->layout, p.shape, workspace.data).or_throw();
  };
  launch(0);
  exec.synchronize().or_throw();
  double const error = against_portable(exec, p, p.args(lists[0]->index, p.kv()));
  cudaGraph_t graph;
  cudaGraphExec_t runnable;
  check(cudaStreamBeginCapture(exec.stream(), cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < calls; ++i) launch(i);
  check(cudaStreamEndCapture(exec.stream(), &graph), "capture");
  check(cudaGraphInstantiate(&runnable, graph, 0), "instantiate");
  stopwatch watch{exec.stream()};
  std::vector<float> times;
  for (int r = 0; r < 13; ++r) {
    float const ms = watch.milliseconds([&] { cudaGraphLaunch(runnable, exec.stream()); });
    if (r >= 2) times.push_back(ms / calls);
  }
  cudaGraphExecDestroy(runnable), cudaGraphDestroy(graph);
  char note[64];
  std::snprintf(note, sizeof note, "error %.1e %s", error, error < 1e-2 ? "ok" : "WRONG");
  report(id, times, bytes, note);
}

template <int Dim>
double bytes_of(lacuna::attention_shape const& s, double keys) {
  return 4.0 * Dim * s.kv_heads * keys;
}

template <int Dim>
void dense(char const* id, lacuna::cuda_executor const& exec, lacuna::attention_shape const& s, std::vector<std::int32_t> const& lengths = {}) {
  problem<Dim> const p{s, lengths};
  double const keys = lengths.empty() ? double(s.batch) * s.keys : std::accumulate(lengths.begin(), lengths.end(), 0.0);
  flushed(id, exec, p, p.kv(), dense_list(), bytes_of<Dim>(s, keys));
}

/// The pool is the same memory, its pages in random order.
void paged(char const* id, lacuna::cuda_executor const& exec, lacuna::attention_shape const& s, index_t page) {
  problem<128> const p{s};
  index_t const pages = s.keys / page;
  std::vector<std::int32_t> order(pages);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937{3});
  buffer<std::int32_t> const table(order);
  lacuna::paged_kv<bf16> const kv{{p.k.data, pages, page, s.kv_heads, 128}, {p.v.data, pages, page, s.kv_heads, 128}, {table.data, 1, pages}};
  flushed(id, exec, p, kv, dense_list(), bytes_of<128>(s, double(s.keys)));
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  cudaStream_t stream;
  check(cudaStreamCreate(&stream), "stream");
  lacuna::cuda_executor const exec{stream};
  constexpr index_t million = 1 << 20;
  dense<128>("A3", exec, {1, 1, million, 32, 8});
  dense<128>("A3h1", exec, {1, 1, million, 4, 1});
  dense<128>("A3-28:4", exec, {1, 1, million, 28, 4});
  dense<64>("A3-9:3", exec, {1, 1, million, 9, 3});
  dense<128>("A3q8", exec, {1, 8, million, 32, 8});
  dense<128>("A3r", exec, {4, 1, million / 2, 32, 8}, {524288, 200000, 50000, 3000});
  dense<128>("D128K", exec, {1, 1, 131072, 32, 8});
  dense<128>("D32K", exec, {1, 1, 32768, 32, 8});
  dense<128>("D4K-b64", exec, {64, 1, 4096, 32, 8});
  paged("A3p64", exec, {1, 1, million, 32, 8}, 64);
  paged("A3p16", exec, {1, 1, million, 32, 8}, 16);
  {
    problem<128> const p{{1, 1, million, 32, 8}};
    recorded("H3", exec, p);
    flushed("H3f", exec, p, p.kv(), chunk_list(million, 1), bytes_of<128>(p.shape, double(keys_in(chunk_list(million, 1), million))));
  }
  recorded("H3-28:4", exec, problem<128>{{1, 1, million, 28, 4}});
}
