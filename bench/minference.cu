// MInference's patterns on a GPU: `bench_minference [id...]` times targets M2 (block-sparse), M3 and M4 (vertical-slash, sets "half") and
// M5 (its estimate), and shorter stand-ins. Parts of a case have a letter after its id: i or e choosing keys, c lists from given sets, a
// attending.
#include "support.cuh"

#include <lacuna/pattern/block_sparse.hpp>
#include <lacuna/pattern/vertical_slash.hpp>

namespace {

using bench::attention_shape, bench::bf16, bench::index_t, bench::run_times;

constexpr index_t million = 1 << 20;

attention_shape square(index_t tokens, int heads) { return {1, tokens, tokens, heads, heads}; }

/// One part after the other.
run_times sum(run_times const& a, run_times const& b) { return {a.median + b.median, a.best + b.best, a.worst + b.worst}; }

/// Blocks of 64, the best 100 a tile, on data with topics.
void block_sparse(bench::session const& session, std::string const& id, index_t tokens) {
  if (!session.wanted(id)) return;
  bench::prefill<bf16, 128, lacuna::block_sparse> const p{session.exec(), square(tokens, 32), {100}, 1};
  auto const choose = bench::time_runs(p.exec.stream(), 3, [&] { p.build(); });
  auto const attend = bench::time_runs(p.exec.stream(), 3, [&] { p.attend(); });
  double const flop = p.flop();
  bench::print_line((id + "i").c_str(), choose, flop, "TFLOP/s", "choosing blocks");
  bench::print_line((id + "a").c_str(), attend, flop, "TFLOP/s", p.plan.body() + ": " + p.plan.reason());
  bench::print_line(id.c_str(), sum(choose, attend), flop, "TFLOP/s", "both");
}

/// Sets "half" for every head: columns evenly over the keys; half of the distances nearest, the others in runs of 64 evenly over the rest.
struct half_sets {
  bench::buffer<std::int32_t> verticals, distances;
  attention_shape shape;
  int columns, slashes;

  half_sets(attention_shape const& s, int columns_, int slashes_)
      : verticals{repeated(s.query_heads, columns_of(s.keys, columns_))},
        distances{repeated(s.query_heads, distances_of(s.keys, slashes_))},
        shape{s},
        columns{columns_},
        slashes{slashes_} {}

  lacuna::slash_sets view() const {
    return {{verticals.data, 1, shape.query_heads, columns}, {distances.data, 1, shape.query_heads, slashes}};
  }
  bench::given_lists<1> pattern() const { return {shape.query_heads, 64, lacuna::slash_sets_capacity(shape, view())}; }

 private:
  static std::vector<std::int32_t> columns_of(index_t keys, int count) {
    std::vector<std::int32_t> all(count);
    for (int i = 0; i < count; ++i) all[i] = static_cast<std::int32_t>(i * keys / count);
    return all;
  }
  static std::vector<std::int32_t> distances_of(index_t keys, int count) {
    std::vector<std::int32_t> all(count);
    index_t const near = count / 2, runs = lacuna::ceil_div<index_t>(count - near, 64);
    for (index_t i = 0; i < count; ++i) {
      index_t const run = (i - near) / 64;
      all[i] = static_cast<std::int32_t>(i < near ? i : near + (2 * run + 1) * (keys - near) / (2 * runs) + (i - near) % 64);
    }
    return all;
  }
  static std::vector<std::int32_t> repeated(int times, std::vector<std::int32_t> const& set) {
    std::vector<std::int32_t> all;
    for (int i = 0; i < times; ++i) all.insert(all.end(), set.begin(), set.end());
    return all;
  }
};

template <class Prefill>
void convert(Prefill const& p, half_sets const& sets, std::byte* workspace) {
  lacuna::build_slash_sets(p.exec, p.plan.shape(), {}, sets.view(), workspace, p.index()).or_throw();
}

/// Estimating and indexing, as the pattern does it on the queries and keys at hand.
run_times estimate(bench::session const& session, std::string const& id, attention_shape const& s, int columns, int slashes) {
  bench::prefill<bf16, 128, lacuna::vertical_slash> const p{session.exec(), s, {.verticals = columns, .slashes = slashes}};
  auto const times = bench::time_runs(p.exec.stream(), 3, [&] { p.build(); });
  double const products = 2.0 * 128 * 64 * static_cast<double>(s.keys) * s.query_heads;
  bench::print_line(id.c_str(), times, products, "TFLOP/s", "estimate and index; the rate counts one product of 64 rows with all keys");
  return times;
}

void vertical_slash(bench::session const& session, std::string const& id, index_t tokens, int columns, int slashes) {
  if (!session.wanted(id)) return;
  auto const s = square(tokens, 32);
  auto const choose = estimate(session, id + "e", s, columns, slashes);
  half_sets const sets{s, columns, slashes};
  bench::prefill<bf16, 128, bench::given_lists<1>> const p{session.exec(), s, sets.pattern()};
  bench::buffer<std::byte> const workspace{lacuna::slash_sets_workspace_bytes(s, sets.view())};
  auto const converted = bench::time_runs(p.exec.stream(), 3, [&] { convert(p, sets, workspace.data); });
  auto const attend = bench::time_runs(p.exec.stream(), 3, [&] { p.attend(); });
  double const flop = p.flop(1);
  bench::print_line((id + "c").c_str(), converted, flop, "TFLOP/s", "lists from given sets");
  bench::print_line((id + "a").c_str(), attend, flop, "TFLOP/s", p.plan.body() + ": " + p.plan.reason());
  bench::print_line(id.c_str(), sum(choose, attend), flop, "TFLOP/s", "estimate, index and attend");
}

void check_all(lacuna::cuda_executor const& exec) {
  auto const by_pattern = [](auto const& p) { p.build(); };
  for (auto const& s : {attention_shape{1, 1000, 1000, 4, 4}, {1, 333, 700, 6, 2}}) {
    bench::check_small<bf16, 128>(exec, "block_sparse 4", s, lacuna::block_sparse{4}, by_pattern, 1);
    half_sets const sets{s, 20, 200};
    bench::buffer<std::byte> const workspace{lacuna::slash_sets_workspace_bytes(s, sets.view())};
    bench::check_small<bf16, 128>(exec, "half 20/200", s, sets.pattern(), [&](auto const& p) { convert(p, sets, workspace.data); });
  }
}

void run(bench::session const& session) {
  if (session.wanted("check")) check_all(session.exec());
  block_sparse(session, "M2s", million / 32);
  block_sparse(session, "M2", million / 8);
  vertical_slash(session, "M3s", million / 8, 1000, 6096);
  vertical_slash(session, "M4s", million / 8, 30, 2048);
  if (session.wanted("M5")) estimate(session, "M5", square(million, 32), 1000, 6096);
  vertical_slash(session, "M4", million, 30, 2048);
  vertical_slash(session, "M3", million, 1000, 6096);
}

}  // namespace

int main(int argc, char** argv) { return bench::run_cases(argc, argv, run); }
