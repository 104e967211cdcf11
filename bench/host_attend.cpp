// Rates of attention on the CPU beside those of matrix products and copies, measured in pairs that take turns; medians of 5.
#include <lacuna/kernels/host/host_attend.hpp>
#include <lacuna/storage/contiguous.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#ifdef LACUNA_BENCH_BLAS
#include <cblas.h>
extern "C" void openblas_set_num_threads(int);
#endif

namespace {

using lacuna::index_t;

constexpr int runs = 5;

template <class Work>
double seconds(Work const& work) {
  auto const start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Seconds of two works that take turns, and the median of first / second.
struct pair_times {
  double first, second, ratio;
};

template <class First, class Second>
pair_times take_turns(First const& first, Second const& second) {
  std::vector<double> a, b, ratio;
  first(), second();
  for (int i = 0; i < runs; ++i) a.push_back(seconds(first)), b.push_back(seconds(second)), ratio.push_back(a.back() / b.back());
  return {median(a), median(b), median(ratio)};
}

template <class T>
std::vector<T> normals(index_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  std::mt19937 engine{1};
  std::normal_distribution<float> normal;
  for (auto& x : values) x = lacuna::from_float<T>(normal(engine));
  return values;
}

/// Dense attention, or sinks and a window, of one random sequence.
template <class T>
class problem {
 public:
  using kv_type = lacuna::contiguous_kv<T>;
  using args_type = lacuna::attend_args<T, kv_type>;

  problem(lacuna::attention_shape const& s, int sinks, int window) : shape_{s} {
    q_ = normals<T>(s.queries * s.query_heads * s.key_dim);
    k_ = normals<T>(s.keys * s.kv_heads * s.key_dim), v_ = normals<T>(s.keys * s.kv_heads * s.value_dim);
    out_.resize(static_cast<std::size_t>(s.queries * s.query_heads * s.value_dim));
    lacuna::index_layout const layout{.batch = 1, .heads = 1, .queries = s.queries, .capacity = {.shared_spans = 1}};
    memory_.resize(lacuna::index_bytes(layout));
    index_ = lacuna::make_index(layout, memory_.data());
    std::fill_n(index_.row_count, index_.tiles, 0);
    index_.prefix[0] = sinks, index_.rules[0] = {};
    if (window) index_.rules[0].sinks = sinks, index_.rules[0].window = window;
    for (int partial = 0; partial < 2; ++partial) {
      auto const rows = static_cast<std::int32_t>(partial ? s.queries % 64 : 64);
      index_.shared_count[partial] = 1;
      index_.shared[partial] = window ? lacuna::span{1 - window, rows} : lacuna::span{-0x7fffffff - 1, 0x7fffffff};
    }
  }

  args_type args() {
    auto const& s = shape_;
    args_type a;
    a.shape = s, a.index = index_;
    a.q = {q_.data(), 1, s.queries, s.query_heads, s.key_dim};
    a.kv = {{k_.data(), 1, s.keys, s.kv_heads, s.key_dim}, {v_.data(), 1, s.keys, s.kv_heads, s.value_dim}};
    a.out = {out_.data(), 1, s.queries, s.query_heads, s.value_dim};
    a.logits.scale = 1 / std::sqrt(static_cast<float>(s.key_dim));
    return a;
  }

  double causal_flop() const {
    return 2.0 * shape_.queries * (shape_.queries + 1) * shape_.query_heads * (shape_.key_dim + shape_.value_dim) / 2;
  }
  double kv_bytes() const { return static_cast<double>(k_.size() + v_.size()) * sizeof(T); }

 private:
  lacuna::attention_shape shape_;
  std::vector<T> q_, k_, v_, out_;
  std::vector<std::byte> memory_;
  lacuna::sparse_index index_;
};

lacuna::attention_shape square(index_t tokens, int heads, int dim) { return {1, tokens, tokens, heads, heads, dim, dim}; }

/// A square matrix product where there is a BLAS; else dense attention measures itself.
class product {
 public:
  void operator()() const {
#ifdef LACUNA_BENCH_BLAS
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a_.data(), n, b_.data(), n, 0, c_.data(), n);
#endif
  }
  static constexpr double flop = 2.0 * 2048 * 2048 * 2048;

 private:
  static constexpr int n = 2048;
  std::vector<float> a_ = normals<float>(n * n), b_ = normals<float>(n * n);
  mutable std::vector<float> c_ = std::vector<float>(n * n);
};

template <class T>
void prefill(lacuna::host_executor const& exec, lacuna::host_isa isa, int dim) {
  problem<T> dense{square(8192, 8, dim), 0, 0};
  auto const args = dense.args();
  product const sgemm;
  auto const t = take_turns([&] { lacuna::host_attend(exec, args, {}, isa).or_throw(); }, sgemm);
  std::printf("prefill, causal, 8 heads, 8K, d %3d, %-4s: %6.1f GFLOP/s", dim, lacuna::element_name<T>,
              dense.causal_flop() / t.first / 1e9);
#ifdef LACUNA_BENCH_BLAS
  std::printf("; sgemm %6.1f; ratio %.2f", product::flop / t.second / 1e9, dense.causal_flop() / product::flop / t.ratio);
#endif
  std::printf("\n");
}

void window(lacuna::host_executor const& exec, lacuna::host_isa isa) {
  problem<float> dense{square(16384, 8, 64), 0, 0}, narrow{square(16384, 8, 64), 1024, 1024};
  auto const all = dense.args(), some = narrow.args();
  auto const t =
      take_turns([&] { lacuna::host_attend(exec, all, {}, isa).or_throw(); }, [&] { lacuna::host_attend(exec, some, {}, isa).or_throw(); });
  std::printf("A-shape 1K+1K at 16K, 8 heads, d 64: %.1f ms; dense %.1f ms; ratio %.2f\n", t.second * 1e3, t.first * 1e3, t.ratio);
}

/// One query a head; the copy moves as many bytes as K and V have, half of them read and half written.
template <class T>
void decode(lacuna::host_executor const& exec, lacuna::host_isa isa, index_t keys, int heads, int kv_heads, int dim) {
  problem<T> few{{1, 1, keys, heads, kv_heads, dim, dim}, 0, 0};
  auto const args = few.args();
  int const splits = static_cast<int>(lacuna::ceil_div<index_t>(keys, 2048));
  std::vector<float> memory(static_cast<std::size_t>(heads * splits * (dim + 1)));
  lacuna::attend_parts const parts{splits, 2048, memory.data(), memory.data() + heads * splits * dim};
  auto const half = static_cast<std::size_t>(few.kv_bytes() / 2);
  std::vector<char> from(half, 1), to(half);
  index_t const pieces = exec.threads() * 4;
  auto const copy = [&] {
    exec.for_each(pieces, 0, [&](index_t i, std::byte*) {
      std::size_t const begin = half * i / pieces, end = half * (i + 1) / pieces;
      std::memcpy(to.data() + begin, from.data() + begin, end - begin);
    });
  };
  auto const t = take_turns([&] { lacuna::host_attend(exec, args, parts, isa).or_throw(); }, copy);
  std::printf("decode, %4lldK keys, heads %2d:%d, d %3d, %-4s: %5.1f GB/s; copy (read + write) %5.1f; ratio %.2f\n",
              static_cast<long long>(keys / 1024), heads, kv_heads, dim, lacuna::element_name<T>, few.kv_bytes() / t.first / 1e9,
              few.kv_bytes() / t.second / 1e9, 1 / t.ratio);
}

}  // namespace

int main(int count, char** words) {
  int const threads = count > 1 ? std::atoi(words[1]) : 2;
  std::string const wanted = count > 2 ? words[2] : "";
  auto const best = lacuna::best_host_isa();
  auto const isa = wanted == "baseline" ? lacuna::host_isa::baseline : wanted == "avx2" ? std::min(best, lacuna::host_isa::avx2) : best;
  lacuna::host_executor const exec{threads};
#ifdef LACUNA_BENCH_BLAS
  openblas_set_num_threads(threads);
#endif
  std::printf("%d threads, %s\n", exec.threads(), lacuna::host_isa_name(isa));
  prefill<float>(exec, isa, 64);
  prefill<float>(exec, isa, 128);
  prefill<lacuna::bfloat16>(exec, isa, 64);
  prefill<lacuna::bfloat16>(exec, isa, 128);
  window(exec, isa);
  decode<float>(exec, isa, 8192, 8, 8, 64);
  decode<float>(exec, isa, 8192, 32, 8, 64);
  decode<float>(exec, isa, 131072, 8, 8, 128);
  decode<lacuna::bfloat16>(exec, isa, 8192, 32, 8, 128);
  decode<lacuna::bfloat16>(exec, isa, 131072, 32, 8, 128);
}
