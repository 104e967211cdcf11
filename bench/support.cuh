#pragma once
// What the benchmark programs on a GPU share: random tensors, lists given by hand, timing, checks, and the line a case prints.
#include <lacuna/cuda.cuh>
#include <lacuna/lacuna.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace bench {

using bf16 = lacuna::bfloat16;
using lacuna::attention_shape, lacuna::index_t;

inline void check(cudaError_t code, char const* what) { lacuna::detail::cuda_status(code, what).or_throw(); }

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

template <class T>
void put(T* to, std::vector<T> const& values) {
  check(cudaMemcpy(to, values.data(), values.size() * sizeof(T), cudaMemcpyDefault), "copy");
}

template <class T>
std::vector<T> get(T const* from, std::size_t count) {
  std::vector<T> values(count);
  check(cudaMemcpy(values.data(), from, count * sizeof(T), cudaMemcpyDefault), "copy");
  return values;
}

/// The stream of a program, and the ids that its command line asks for: all, if none.
class session {
 public:
  session(int argc, char** argv) : asked_(argv + 1, argv + argc) {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    check(cudaStreamCreate(&stream_), "stream");
  }
  ~session() { cudaStreamDestroy(stream_); }
  session(session const&) = delete;
  session& operator=(session const&) = delete;

  lacuna::cuda_executor exec() const { return lacuna::cuda_executor{stream_}; }
  bool wanted(std::string const& id) const { return asked_.empty() || std::find(asked_.begin(), asked_.end(), id) != asked_.end(); }

 private:
  std::vector<std::string> asked_;
  cudaStream_t stream_ = nullptr;
};

/// The whole of a program: `cases(session)`. What goes wrong is said on stderr.
template <class Cases>
int run_cases(int argc, char** argv, Cases const& cases) {
  try {
    cases(session{argc, argv});
    return 0;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

/// How random data look: near normal elements, and a direction that each run of `topic_tokens` tokens shares, whatever the tensor, so
/// that queries of a run favour the same far runs of keys.
struct texture {
  unsigned seed = 1;
  float topic = 0;  // weight of the shared direction
  static constexpr index_t topic_tokens = 512;
};

template <class T>
struct fill_rows {
  lacuna::tensor_view<T, 4> to;  // contiguous
  texture look;

  static constexpr index_t stretch = 1 << 16;
  LACUNA_HD index_t count() const { return to.extent[0] * to.extent[1] * to.extent[2] * to.extent[3]; }
  LACUNA_HD index_t blocks() const { return lacuna::ceil_div(count(), stretch); }
  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  /// A sum of 12 uniforms.
  LACUNA_HD static float normal(unsigned seed, index_t i) {
    unsigned h = seed * 0x9e3779b9u ^ static_cast<unsigned>(i * 2654435761u) ^ static_cast<unsigned>(i >> 32);
    float sum = -6;
    for (int k = 0; k < 12; ++k) h = h * 1664525u + 1013904223u, h ^= h >> 15, sum += static_cast<float>(h >> 8) * 0x1p-24f;
    return sum;
  }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
    index_t const dim = to.extent[3], width = to.extent[2] * dim;
    for (index_t i = block * stretch + team.rank(); i < lacuna::min((block + 1) * stretch, count()); i += team.size()) {
      float x = normal(look.seed, i);
      if (look.topic != 0) x += look.topic * normal(77, i / width % to.extent[1] / texture::topic_tokens * dim + i % dim);
      to.data[i] = lacuna::from_float<T>(x);
    }
  }
};

/// A random tensor [batch, tokens, heads, dim].
template <class T>
class tensor {
 public:
  tensor(lacuna::cuda_executor const& exec, index_t batch, index_t tokens, int heads, int dim, texture look)
      : memory_(batch * tokens * heads * dim), view_{memory_.data, batch, tokens, heads, dim} {
    fill_rows<T> const body{view_, look};
    exec.launch({body.blocks(), 256}, body).or_throw();
  }
  lacuna::tensor_view<T, 4> const& view() const { return view_; }
  std::size_t size() const { return view_.extent[0] * view_.extent[1] * view_.extent[2] * view_.extent[3]; }

 private:
  buffer<T> memory_;
  lacuna::tensor_view<T, 4> view_;
};

/// Lists that a program fills by hand in the place of a pattern.
template <int Granularity>
struct given_lists {
  int list_heads = 1, rows = 64;
  lacuna::index_capacity room = {};

  static constexpr int granularity = Granularity;
  void check(attention_shape const&) const {}
  int lists(attention_shape const&) const { return list_heads; }
  int tile_rows() const { return rows; }
  lacuna::index_capacity capacity(attention_shape const&) const { return room; }
  std::size_t workspace_bytes(attention_shape const&) const { return 0; }
  template <class Exec, class Inputs>
  static lacuna::status build(Exec const&, Inputs const&, std::byte*, lacuna::sparse_index const&, lacuna::head_set<given_lists> const&) {
    return {};
  }
};

/// A causal prefill with random data, planned by the facade.
template <class T, int D, class Pattern>
class prefill {
  struct config : lacuna::attention_defaults<T, D> {
    using pattern = Pattern;
  };

 public:
  prefill(lacuna::cuda_executor e, attention_shape const& s, Pattern const& pattern, float topic = 0)
      : exec{e},
        q{e, s.batch, s.queries, s.query_heads, D, {1, topic}},
        k{e, s.batch, s.keys, s.kv_heads, D, {2, topic}},
        v{e, s.batch, s.keys, s.kv_heads, D, {3}},
        out{e, s.batch, s.queries, s.query_heads, D, {4}},
        lse_(s.batch * s.queries * s.query_heads),
        attention_{pattern},
        plan{attention_.plan_prefill(e, s)},
        scratch_{e, plan.workspace_bytes()} {}

  lacuna::attention_io<T> io() const {
    auto const& s = plan.shape();
    return {q.view(), out.view(), {lse_.data, s.batch, s.queries, s.query_heads}};
  }
  lacuna::contiguous_kv<T> kv() const { return {k.view(), v.view()}; }
  lacuna::sparse_index index() const { return plan.index(scratch_.data()); }

  void build() const { attention_.build(exec, plan, scratch_, io(), kv()).or_throw(); }
  void attend() const { attention_.attend(exec, plan, scratch_, io(), kv()).or_throw(); }

  /// Output rows, then LSE.
  std::pair<std::vector<float>, std::vector<float>> result() const {
    exec.synchronize().or_throw();
    auto const rows = get(out.view().data, out.size());
    std::vector<float> values(rows.size());
    std::transform(rows.begin(), rows.end(), values.begin(), [](T x) { return lacuna::to_float(x); });
    return {values, get(lse_.data, rows.size() / D)};
  }

  /// FLOP of both products over the (query, key) pairs that the lists of the first `heads` list heads visit, scaled to all of them; one
  /// suffices where all heads have the same lists. Batches of one only, if not all heads.
  double flop(int heads = 0x7fff) const {
    exec.synchronize().or_throw();
    auto image = get(scratch_.data(), lacuna::index_bytes(plan.layout()));
    auto x = lacuna::make_index(plan.layout(), image.data());
    auto s = plan.shape();
    int const all = x.heads, counted = std::min(heads, all);
    s.query_heads = s.query_heads / all * counted, s.kv_heads = 1, x.heads = counted;
    return 4.0 * D * static_cast<double>(lacuna::visited_pairs(x, s).visited) * all / counted;
  }

  lacuna::cuda_executor exec;
  tensor<T> q, k, v, out;

 private:
  buffer<float> lse_;
  lacuna::sparse_attention<config> attention_;

 public:
  lacuna::attention_plan plan;

 private:
  lacuna::workspace<lacuna::cuda_executor> scratch_;
};

/// Largest error of a row of `dim` values, relative to its norm; huge if any is NaN.
inline double worst_row(std::vector<float> const& got, std::vector<float> const& right, int dim) {
  double worst = 0;
  for (std::size_t row = 0; row * dim < right.size(); ++row) {
    double error = 0, norm = 0;
    for (std::size_t i = row * dim; i < (row + 1) * dim; ++i)
      error += (double{got[i]} - right[i]) * (double{got[i]} - right[i]), norm += double{right[i]} * right[i];
    double const relative = norm > 0 ? std::sqrt(error / norm) : std::sqrt(error);
    if (!(relative <= worst)) worst = std::isnan(relative) ? 1e9 : relative;
  }
  return worst;
}

/// 16-bit outputs of one tensor-core body against another body's: weights and outputs are rounded, 1e-2 of a row's norm.
inline char const* verdict(double worst) { return worst <= 1e-2 ? "ok" : "WRONG"; }

/// Runs a small case on its own target and with the portable body on the same lists, prints the difference. `fill(prefill)` makes the
/// lists.
template <class T, int D, class Pattern, class Fill>
void check_small(lacuna::cuda_executor const& exec, char const* name, attention_shape const& s, Pattern const& pattern, Fill const& fill,
                 float topic = 0) {
  prefill<T, D, Pattern> const fast{exec, s, pattern, topic}, plain{exec.targeting(lacuna::target::portable_cuda), s, pattern, topic};
  fill(fast), fill(plain);
  fast.attend(), plain.attend();
  auto const [got, got_lse] = fast.result();
  auto const [right, right_lse] = plain.result();
  double worst_lse = 0;
  for (std::size_t r = 0; r < got_lse.size(); ++r) {
    double const e = got_lse[r] == right_lse[r] ? 0 : std::abs(double{got_lse[r]} - right_lse[r]);
    if (!(e <= worst_lse)) worst_lse = std::isnan(e) ? 1e9 : e;
  }
  double const worst = worst_row(got, right, D);
  std::printf("check %-24s B%d q%d k%d H%d:%d d%d  out %.1e lse %.1e %s  %s\n", name, int(s.batch), int(s.queries), int(s.keys),
              s.query_heads, s.kv_heads, D, worst, worst_lse, worst_lse <= 1e-3 ? verdict(worst) : "WRONG", fast.plan.body().c_str());
}

struct run_times {
  float median, best, worst;  // milliseconds
};

/// Times `work`, whatever `before` does first, between CUDA events, after two runs that are not counted.
template <class Work, class Before>
run_times time_runs(cudaStream_t stream, int repeats, Work const& work, Before const& before) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "event"), check(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int i = -2; i < repeats; ++i) {
    before();
    check(cudaEventRecord(begin, stream), "event");
    work();
    check(cudaEventRecord(end, stream), "event");
    check(cudaEventSynchronize(end), "run");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "time");
    if (i >= 0) times.push_back(ms);
  }
  cudaEventDestroy(begin), cudaEventDestroy(end);
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times.front(), times.back()};
}

template <class Work>
run_times time_runs(cudaStream_t stream, int repeats, Work const& work) {
  return time_runs(stream, repeats, work, [] {});
}

/// One line a case, which bench/run_targets reads: id, milliseconds, "ms", rate, unit. `amount` is FLOP or bytes.
inline void print_line(char const* id, run_times const& t, double amount, char const* unit, std::string const& note) {
  double const rate = amount / t.median * 1e-9;
  std::printf("%-8s %10.4f ms %8.2f %s  (best %.4f, worst %.4f)  %s\n", id, t.median, rate, unit, t.best, t.worst, note.c_str());
}

}  // namespace bench
