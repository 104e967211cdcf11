// Prefill through the sm_80 body, on any GPU that has tensor cores: `bench_sm80_prefill [id ...]`, by default every case.
#include "support.cuh"

#include <lacuna/pattern/vertical_slash.hpp>

namespace {

using bench::attention_shape, bench::bf16;

/// Times the attend step of one causal prefill.
template <int D, class Pattern>
void measure(bench::session const& session, char const* id, attention_shape const& s, Pattern const& pattern, int repeats) {
  if (!session.wanted(id)) return;
  auto exec = session.exec();
  if (exec.target() == lacuna::target::sm90a) exec = exec.targeting(lacuna::target::sm80);
  bench::prefill<bf16, D, Pattern> const p{exec, s, pattern};
  p.build();
  auto const times = bench::time_runs(exec.stream(), repeats, [&] { p.attend(); });
  bench::print_line(id, times, p.flop(), "TFLOP/s", p.plan.body());
}

void run(bench::session const& session) {
  measure<128>(session, "A1", {1, 32768, 32768, 32, 8}, lacuna::dense{}, 9);
  measure<128>(session, "A1b", {1, 32768, 32768, 28, 4}, lacuna::dense{}, 5);
  measure<64>(session, "A1c", {1, 32768, 32768, 9, 3}, lacuna::dense{}, 9);
  measure<256>(session, "D256", {1, 32768, 32768, 16, 4}, lacuna::dense{}, 5);
  measure<128>(session, "M1s", {1, 131072, 131072, 32, 32}, lacuna::a_shape{1024, 4096}, 5);
  measure<128>(session, "VS", {1, 32768, 32768, 32, 32}, lacuna::vertical_slash{.verticals = 1000, .slashes = 2000}, 5);
}

}  // namespace

int main(int argc, char** argv) { return bench::run_cases(argc, argv, run); }
