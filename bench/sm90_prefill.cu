// Prefill on Hopper: `bench_sm90_prefill [id...]` times targets A1, A2, M1, H2 and shapes beside them; `check` compares small and odd
// shapes with the portable body.
#include "random_blocks.cuh"
#include "support.cuh"

namespace {

using bench::attention_shape, bench::bf16, bench::index_t;

template <int D, class Pattern, class Fill>
void measure(bench::session const& session, char const* id, attention_shape const& s, Pattern const& pattern, int repeats,
             Fill const& fill) {
  if (!session.wanted(id)) return;
  bench::prefill<bf16, D, Pattern> const p{session.exec(), s, pattern};
  fill(p);
  auto const times = bench::time_runs(p.exec.stream(), repeats, [&] { p.attend(); });
  bench::print_line(id, times, p.flop(), "TFLOP/s", p.plan.body());
}

auto const by_pattern = [](auto const& p) { p.build(); };

template <int D, int Block>
void check_blocks(lacuna::cuda_executor const& exec, attention_shape const& s) {
  for (auto const& [count, heads, rows] : {std::tuple{3, s.query_heads, 64},
                                           {5, s.kv_heads, 64},
                                           {5, 1, 64},
                                           {2, s.query_heads, 128},
                                           {6, s.kv_heads, 1},
                                           {4, s.query_heads, 16},
                                           {4, s.query_heads, 1}}) {
    bench::random_blocks<Block> const lists{count};
    bench::check_small<bf16, D>(exec, "blocks", s, lists.pattern(s, heads, rows), [&](auto const& p) { lists.fill(p); });
  }
}

void check_all(lacuna::cuda_executor const& exec) {
  for (auto const& s : {attention_shape{1, 128, 128, 1, 1},
                        {1, 1, 1, 4, 1},
                        {1, 300, 300, 8, 2},
                        {2, 129, 1000, 6, 2},
                        {1, 1000, 1000, 28, 4},
                        {1, 5, 3, 4, 4},
                        {1, 640, 640, 16, 1}}) {
    bench::check_small<bf16, 128>(exec, "dense", s, lacuna::dense{}, by_pattern);
    bench::check_small<bf16, 64>(exec, "dense", s, lacuna::dense{}, by_pattern);
    bench::check_small<bf16, 128>(exec, "a_shape 16+100", s, lacuna::a_shape{16, 100}, by_pattern);
    bench::check_small<bf16, 64>(exec, "a_shape 1+33", s, lacuna::a_shape{1, 33}, by_pattern);
  }
  for (auto const& s :
       {attention_shape{1, 640, 640, 4, 4}, {2, 500, 777, 6, 2}, {1, 1000, 1000, 28, 4}, {1, 63, 900, 2, 2}, {1, 300, 300, 32, 2}}) {
    check_blocks<128, 8>(exec, s), check_blocks<64, 16>(exec, s), check_blocks<64, 32>(exec, s);
    check_blocks<128, 64>(exec, s), check_blocks<64, 64>(exec, s), check_blocks<128, 128>(exec, s);
  }
}

/// Random blocks before each tile, one list for `heads` heads of the index.
template <int Block>
void measure_blocks(bench::session const& session, char const* id, attention_shape const& s, int count, int heads, int rows, int repeats) {
  bench::random_blocks<Block> const lists{count};
  measure<128>(session, id, s, lists.pattern(s, heads, rows), repeats, [&](auto const& p) { lists.fill(p); });
}

void run(bench::session const& session) {
  if (session.wanted("check")) check_all(session.exec());
  measure_blocks<8>(session, "H2", {1, 32768, 32768, 32, 8}, 256, 1, 64, 5);
  measure_blocks<64>(session, "M2r", {1, 131072, 131072, 32, 32}, 98, 32, 64, 3);
  measure_blocks<64>(session, "I2r", {1, 131072, 131072, 32, 2}, 95, 2, 8, 3);
  measure<128>(session, "A1", {1, 32768, 32768, 32, 8}, lacuna::dense{}, 9, by_pattern);
  measure<128>(session, "A2", {1, 131072, 131072, 32, 8}, lacuna::dense{}, 3, by_pattern);
  measure<128>(session, "M1", {1, 1 << 20, 1 << 20, 32, 32}, lacuna::a_shape{1024, 4096}, 3, by_pattern);
  measure<128>(session, "A1b", {1, 32768, 32768, 28, 4}, lacuna::dense{}, 5, by_pattern);
  measure<64>(session, "A1c", {1, 32768, 32768, 9, 3}, lacuna::dense{}, 5, by_pattern);
}

}  // namespace

int main(int argc, char** argv) { return bench::run_cases(argc, argv, run); }
