// Prefill through the sm_80 body, on any GPU that has tensor cores: `bench_sm80_prefill [case ...]`, by default every case.
#include <lacuna/cuda.cuh>
#include <lacuna/lacuna.hpp>
#include <lacuna/pattern/vertical_slash.hpp>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace {

using lacuna::index_t;

void check(cudaError_t code) { lacuna::detail::cuda_status(code, "bench").or_throw(); }

/// Deviates near normal (sums of 12 uniforms), a block a stretch.
template <class T>
struct fill_normals {
  T* to;
  index_t count;
  unsigned seed;

  static constexpr index_t stretch = 1 << 16;
  LACUNA_HD index_t blocks() const { return lacuna::ceil_div(count, stretch); }
  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
    for (index_t i = block * stretch + team.rank(); i < lacuna::min((block + 1) * stretch, count); i += team.size()) {
      unsigned h = seed * 0x9e3779b9u ^ static_cast<unsigned>(i * 2654435761u) ^ static_cast<unsigned>(i >> 32);
      float sum = -6;
      for (int k = 0; k < 12; ++k) h = h * 1664525u + 1013904223u, h ^= h >> 15, sum += static_cast<float>(h >> 8) * 0x1p-24f;
      to[i] = lacuna::from_float<T>(sum);
    }
  }
};

template <class T>
class random_tensor {
 public:
  random_tensor(lacuna::cuda_executor const& exec, index_t tokens, int heads, int dim, unsigned seed)
      : memory_{exec, static_cast<std::size_t>(tokens * heads * dim) * sizeof(T)}, tokens_{tokens}, heads_{heads}, dim_{dim} {
    fill_normals<T> const body{view().data, tokens * heads * dim, seed};
    exec.launch({body.blocks(), 256}, body).or_throw();
  }
  lacuna::tensor_view<T, 4> view() const { return {reinterpret_cast<T*>(memory_.data()), 1, tokens_, heads_, dim_}; }

 private:
  lacuna::workspace<lacuna::cuda_executor> memory_;
  index_t tokens_;
  int heads_, dim_;
};

struct case_name {
  std::string id;
  std::vector<std::string> const& asked;
  bool wanted() const { return asked.empty() || std::ranges::count(asked, id); }
};

/// Median, best and worst of some runs.
template <class Run>
std::vector<float> milliseconds(cudaStream_t stream, int repeats, Run const& run) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin)), check(cudaEventCreate(&end));
  std::vector<float> times;
  for (int i = -2; i < repeats; ++i) {
    check(cudaEventRecord(begin, stream));
    run();
    check(cudaEventRecord(end, stream));
    check(cudaEventSynchronize(end));
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end));
    if (i >= 0) times.push_back(ms);
  }
  check(cudaEventDestroy(begin)), check(cudaEventDestroy(end));
  std::ranges::sort(times);
  return times;
}

/// Visited pairs of an index in device memory.
index_t pairs_of(lacuna::cuda_executor const& exec, lacuna::attention_plan const& plan, std::byte const* workspace) {
  std::vector<std::byte> image(lacuna::index_bytes(plan.layout()));
  exec.copy(image.data(), workspace, image.size()).or_throw();
  exec.synchronize().or_throw();
  return lacuna::visited_pairs(lacuna::make_index(plan.layout(), image.data()), plan.shape()).visited;
}

/// Times the attend step of one causal prefill. FLOP count visited pairs only, 2 * (key_dim + value_dim) each.
template <class T, int D, class Pattern>
void measure(lacuna::cuda_executor const& exec, case_name const& name, lacuna::attention_shape const& s, Pattern const& pattern,
             int repeats) {
  if (!name.wanted()) return;
  struct config : lacuna::attention_defaults<T, D> {
    using pattern = Pattern;
  };
  lacuna::sparse_attention<config> const attention{pattern};
  random_tensor<T> const q{exec, s.queries, s.query_heads, D, 1}, k{exec, s.keys, s.kv_heads, D, 2}, v{exec, s.keys, s.kv_heads, D, 3},
      out{exec, s.queries, s.query_heads, D, 4};
  lacuna::attention_io<T> const io{q.view(), out.view()};
  lacuna::contiguous_kv<T> const kv{k.view(), v.view()};
  auto const plan = attention.plan_prefill(exec, s);
  lacuna::workspace const scratch{exec, plan.workspace_bytes()};
  attention.build(exec, plan, scratch, io, kv).or_throw();
  auto const times = milliseconds(exec.stream(), repeats, [&] { attention.attend(exec, plan, scratch, io, kv).or_throw(); });
  double const pairs = static_cast<double>(pairs_of(exec, plan, scratch.data())), ms = times[times.size() / 2];
  std::printf("%-5s %9.3f ms %7.1f TFLOP/s  (best %.3f, worst %.3f)  %s\n", name.id.c_str(), ms, 4.0 * D * pairs / ms * 1e-9,
              times.front(), times.back(), plan.body().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> const asked(argv + 1, argv + argc);
  cudaStream_t stream;
  check(cudaStreamCreate(&stream));
  lacuna::cuda_executor exec{stream};
  if (exec.target() == lacuna::target::sm90a) exec = exec.targeting(lacuna::target::sm80);
  using lacuna::bfloat16;
  measure<bfloat16, 128>(exec, {"A1", asked}, {1, 32768, 32768, 32, 8}, lacuna::dense{}, 9);
  measure<bfloat16, 128>(exec, {"A1b", asked}, {1, 32768, 32768, 28, 4}, lacuna::dense{}, 5);
  measure<bfloat16, 64>(exec, {"A1c", asked}, {1, 32768, 32768, 9, 3}, lacuna::dense{}, 9);
  measure<bfloat16, 256>(exec, {"D256", asked}, {1, 32768, 32768, 16, 4}, lacuna::dense{}, 5);
  measure<bfloat16, 128>(exec, {"M1s", asked}, {1, 131072, 131072, 32, 32}, lacuna::a_shape{1024, 4096}, 5);
  measure<bfloat16, 128>(exec, {"VS", asked}, {1, 32768, 32768, 32, 32}, lacuna::vertical_slash{.verticals = 1000, .slashes = 2000}, 5);
}
