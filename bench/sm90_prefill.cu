// Prefill on Hopper through the sparse kernel: checks small shapes against the portable body, then times
// targets A1, A2, M1 and stand-ins for H2, M2 and I2: sm90_prefill [id...], `check` for the first part alone.
#include <lacuna/cuda.cuh>
#include <lacuna/kernels/sm90/launch_prefill.cuh>
#include <lacuna/lacuna.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <string>
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

template <int Dim>
struct tensors {
  lacuna::attention_shape shape;
  bf16 *q, *k, *v, *out;
  float* lse;
  tensors(lacuna::attention_shape s) : shape{s} {
    auto const get = [](index_t n, unsigned seed) {
      bf16* p = nullptr;
      check(cudaMalloc(&p, n * sizeof(bf16)), "cudaMalloc");
      fill<<<1024, 256>>>(p, n, seed);
      return p;
    };
    q = get(s.batch * s.queries * s.query_heads * Dim, 1), k = get(s.batch * s.keys * s.kv_heads * Dim, 2),
    v = get(s.batch * s.keys * s.kv_heads * Dim, 3);
    out = get(s.batch * s.queries * s.query_heads * Dim, 4);
    check(cudaMalloc(&lse, s.batch * s.queries * s.query_heads * sizeof(float)), "cudaMalloc");
  }
  ~tensors() {
    for (void* p : {static_cast<void*>(q), static_cast<void*>(k), static_cast<void*>(v), static_cast<void*>(out), static_cast<void*>(lse)})
      cudaFree(p);
  }
};

template <int Dim>
using args_of = lacuna::attend_args<bf16, lacuna::contiguous_kv<bf16>>;

/// Lists drawn at random: `count` blocks of `block` tokens before a tile's own keys, and its own. Stands for a pattern.
struct random_blocks {
  int block, count, heads, tile_rows;

  lacuna::index_layout layout(lacuna::attention_shape const& s) const {
    return {static_cast<int>(s.batch), heads, s.queries, tile_rows, block, true, {.spans = count + tile_rows / block + 2}};
  }

  void fill(lacuna::sparse_index const& x, lacuna::attention_shape const& s) const {
    index_t const rows = index_t{x.batch} * x.heads * x.tiles;
    std::vector<std::int32_t> counts(rows), zeros(index_t{x.batch} * x.heads * 2, 0);
    std::vector<lacuna::span> spans(rows * x.capacity.spans);
    std::vector<lacuna::head_rule> rules(index_t{x.batch} * x.heads);
    std::mt19937 engine{7};
    lacuna::sequence const whole{0, s.queries, 0, s.keys};
    for (index_t r = 0; r < rows; ++r) {
      index_t const tile = r % x.tiles, own = std::max<index_t>(0, whole.position(tile * tile_rows)) / block;
      index_t const limit = x.limit_of(whole, tile);
      std::vector<index_t> kept;
      for (int i = 0; i < count && own > 0; ++i) kept.push_back(engine() % own);
      for (index_t k = own; k * block < limit; ++k) kept.push_back(k);
      std::sort(kept.begin(), kept.end());
      kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
      counts[r] = static_cast<int>(kept.size());
      for (std::size_t i = 0; i < kept.size(); ++i)
        spans[r * x.capacity.spans + i] = {static_cast<int>(kept[i] * block), static_cast<int>((kept[i] + 1) * block)};
      visited += [&] {
        double n = 0;
        for (index_t k : kept) n += std::min<double>(block, std::max<double>(0, limit - double(k) * block));
        return n;
      }() * tile_rows;
    }
    auto const put = [](void* to, void const* from, std::size_t bytes) { check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "copy"); };
    put(x.row_count, counts.data(), counts.size() * 4), put(x.own, spans.data(), spans.size() * 8);
    put(x.rules, rules.data(), rules.size() * sizeof(rules[0])), put(x.prefix, zeros.data(), rules.size() * 4);
    put(x.shared_count, zeros.data(), zeros.size() * 4);
    visited *= double(s.query_heads) / heads;
  }
  mutable double visited = 0;  // pairs over all heads, own tiles counted whole
};

template <int Dim, class Pattern>
struct problem : tensors<Dim> {
  lacuna::cuda_executor exec;
  lacuna::index_layout layout;
  lacuna::workspace<lacuna::cuda_executor> index_memory, counter;
  args_of<Dim> args;

  problem(lacuna::cuda_executor e, lacuna::attention_shape s, Pattern pattern)
      : tensors<Dim>{s},
        exec{e},
        layout{layout_of(pattern, s)},
        index_memory{e, lacuna::index_bytes(layout)},
        counter{e, lacuna::sm90::prefill_workspace_bytes(layout, s)} {
    args.shape = s;
    args.index = lacuna::make_index(layout, index_memory.data());
    args.q = {this->q, s.batch, s.queries, s.query_heads, Dim};
    args.kv = {{this->k, s.batch, s.keys, s.kv_heads, Dim}, {this->v, s.batch, s.keys, s.kv_heads, Dim}};
    args.out = {this->out, s.batch, s.queries, s.query_heads, Dim};
    args.lse = {this->lse, s.batch, s.queries, s.query_heads};
    args.logits.scale = 1 / std::sqrt(float(Dim));
    if constexpr (requires { pattern.visited; }) {
      pattern.fill(args.index, s), visited = pattern.visited;
    } else {
      lacuna::build_inputs<bf16, lacuna::contiguous_kv<bf16>> const in{s, {}, args.q, args.kv, args.logits};
      lacuna::for_each_head_set(pattern, 1, [&](auto const& heads) {
        return lacuna::pattern_traits<Pattern>::build(exec, in, nullptr, args.index, heads);
      }).or_throw();
    }
  }
  double visited = 0;

  static lacuna::index_layout layout_of(Pattern const& p, lacuna::attention_shape const& s) {
    if constexpr (requires { p.visited; })
      return p.layout(s);
    else
      return {static_cast<int>(s.batch), 1, s.queries, 128, 1, true, lacuna::pattern_traits<Pattern>::capacity(p, s)};
  }
};

template <int Dim, class Pattern>
void compare(lacuna::cuda_executor exec, lacuna::attention_shape s, Pattern pattern, char const* name) {
  s.key_dim = s.value_dim = Dim;
  problem<Dim, Pattern> p{exec, s, pattern};
  index_t const n = s.batch * s.queries * s.query_heads;
  std::vector<bf16> fast(n * Dim), plain(n * Dim);
  std::vector<float> fast_lse(n), plain_lse(n);
  auto const fetch = [&](std::vector<bf16>& out, std::vector<float>& lse) {
    check(cudaMemcpy(out.data(), p.out, out.size() * sizeof(bf16), cudaMemcpyDefault), "copy");
    check(cudaMemcpy(lse.data(), p.lse, lse.size() * sizeof(float), cudaMemcpyDefault), "copy");
  };
  lacuna::sm90::launch_prefill<Dim>(exec, p.args, p.layout, p.args.shape, p.counter.data()).or_throw();
  exec.synchronize().or_throw();
  fetch(fast, fast_lse);
  check(cudaMemset(p.out, 0xff, n * Dim * sizeof(bf16)), "memset");
  lacuna::attend_row<args_of<Dim>> const body{p.args, {}};
  exec.launch({body.blocks(), 128}, body).or_throw();
  exec.synchronize().or_throw();
  fetch(plain, plain_lse);
  double worst = 0, worst_lse = 0;
  for (index_t r = 0; r < n; ++r) {
    double error = 0, norm = 0;
    for (int d = 0; d < Dim; ++d) {
      double const x = float(plain[r * Dim + d]), e = float(fast[r * Dim + d]) - x;
      error += e * e, norm += x * x;
    }
    double const rel = norm > 0 ? std::sqrt(error / norm) : error;
    if (!(rel <= worst)) worst = std::isnan(rel) ? 1e9 : rel;
    double const l = std::isinf(plain_lse[r]) && plain_lse[r] == fast_lse[r] ? 0 : std::abs(plain_lse[r] - fast_lse[r]);
    if (!(l <= worst_lse)) worst_lse = std::isnan(l) ? 1e9 : l;
  }
  std::printf("check %-28s B%lld q%lld k%lld H%d:%d d%d  out %.2e lse %.2e %s\n", name, (long long)s.batch, (long long)s.queries,
              (long long)s.keys, s.query_heads, s.kv_heads, Dim, worst, worst_lse, worst < 1e-2 && worst_lse < 1e-3 ? "ok" : "WRONG");
}

template <int Dim, class Pattern>
void measure(lacuna::cuda_executor exec, lacuna::attention_shape s, Pattern pattern, char const* name, double pairs, int repeats) {
  s.key_dim = s.value_dim = Dim;
  problem<Dim, Pattern> p{exec, s, pattern};
  cudaEvent_t begin, end;
  cudaEventCreate(&begin), cudaEventCreate(&end);
  std::vector<float> times;
  for (int r = 0; r < repeats + 2; ++r) {
    cudaEventRecord(begin, exec.stream());
    lacuna::sm90::launch_prefill<Dim>(exec, p.args, p.layout, p.args.shape, p.counter.data()).or_throw();
    cudaEventRecord(end, exec.stream());
    exec.synchronize().or_throw();
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, end);
    if (r >= 2) times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  double const ms = times[times.size() / 2];
  if (p.visited > 0) pairs = p.visited / s.batch / s.query_heads;
  std::printf("%-4s %10.3f ms %8.1f TFLOP/s  (best %.3f, worst %.3f)\n", name, ms, 4.0 * Dim * pairs * s.batch * s.query_heads / ms * 1e-9,
              times.front(), times.back());
  std::fflush(stdout);
}

double causal_pairs(double n) { return n * (n + 1) / 2; }
double a_shape_pairs(double n, double sinks, double window) {
  return causal_pairs(sinks + window) + (n - sinks - window) * (sinks + window);
}

/// Small and odd shapes against the portable body.
void compare_all(lacuna::cuda_executor exec) {
  for (auto s : {lacuna::attention_shape{1, 128, 128, 1, 1},
                 {1, 1, 1, 4, 1},
                 {1, 300, 300, 8, 2},
                 {2, 129, 1000, 6, 2},
                 {1, 1000, 1000, 28, 4},
                 {1, 5, 3, 4, 4},
                 {1, 640, 640, 16, 1}}) {
    compare<128>(exec, s, lacuna::dense{}, "dense");
    compare<64>(exec, s, lacuna::dense{}, "dense");
    compare<128>(exec, s, lacuna::a_shape{16, 100}, "a_shape 16+100");
    compare<64>(exec, s, lacuna::a_shape{1, 33}, "a_shape 1+33");
  }
  for (auto s : {lacuna::attention_shape{1, 640, 640, 4, 4}, {2, 500, 777, 6, 2}, {1, 1000, 1000, 28, 4}, {1, 63, 900, 2, 2}})
    for (int const block : {8, 16, 32, 64, 128}) {
      compare<128>(exec, s, random_blocks{block, 3, s.query_heads, 64}, "blocks, list a query head");
      compare<64>(exec, s, random_blocks{block, 5, s.kv_heads, 64}, "blocks, list a KV head");
      compare<128>(exec, s, random_blocks{block, 5, 1, 64}, "blocks, list a layer");
      compare<64>(exec, s, random_blocks{block, 2, s.query_heads, 128}, "blocks, tiles of 128");
    }
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  cudaStream_t stream;
  check(cudaStreamCreate(&stream), "stream");
  lacuna::cuda_executor const exec{stream};
  std::set<std::string> const asked{argv + 1, argv + argc};
  auto const wanted = [&](char const* id) { return asked.empty() || asked.contains(id); };
  if (wanted("check")) compare_all(exec);
  if (wanted("H2")) measure<128>(exec, {1, 32768, 32768, 32, 8}, random_blocks{8, 256, 1, 64}, "H2", 0, 5);
  if (wanted("M2r")) measure<128>(exec, {1, 131072, 131072, 32, 32}, random_blocks{64, 98, 32, 64}, "M2r", 0, 3);
  if (wanted("I2r")) measure<128>(exec, {1, 131072, 131072, 32, 2}, random_blocks{64, 95, 2, 8}, "I2r", 0, 3);
  if (wanted("A1")) measure<128>(exec, {1, 32768, 32768, 32, 8}, lacuna::dense{}, "A1", causal_pairs(32768), 9);
  if (wanted("A2")) measure<128>(exec, {1, 131072, 131072, 32, 8}, lacuna::dense{}, "A2", causal_pairs(131072), 3);
  if (wanted("M1")) measure<128>(exec, {1, 1 << 20, 1 << 20, 32, 32}, lacuna::a_shape{1024, 4096}, "M1", a_shape_pairs(1 << 20, 1024, 4096), 3);
  if (wanted("A1b")) measure<128>(exec, {1, 32768, 32768, 28, 4}, lacuna::dense{}, "A1b", causal_pairs(32768), 5);
  if (wanted("A1c")) measure<64>(exec, {1, 32768, 32768, 9, 3}, lacuna::dense{}, "A1c", causal_pairs(32768), 5);
}
