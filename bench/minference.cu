// MInference's patterns through the facade, 32:32 heads, one index a query head: `bench_minference [case...]`.
//   M2   block-sparse, 100 blocks of 64 kept, 128K: index and attention; M2a its attention, M2i its index
//   M3a  vertical-slash 1000/6096 "half" at 1M: attention over given columns and distances; M4a the same, 30/2048
// Block-sparse chooses from data with topics, since pure noise selects noise.
#include "support.cuh"

#include <lacuna/pattern/block_sparse.hpp>
#include <lacuna/pattern/vertical_slash.hpp>

namespace {

using bench::index_t;
using lacuna::attention_shape;
constexpr int dim = 128;

template <class Pattern>
struct config : lacuna::attention_defaults<lacuna::bfloat16, dim> {
  using pattern = Pattern;
};

/// A planned call of the facade over tensors of its own.
template <class Pattern>
struct call {
  lacuna::cuda_executor exec;
  lacuna::sparse_attention<config<Pattern>> attention;
  bench::tensors<dim> data;
  lacuna::attention_plan plan;
  lacuna::workspace<lacuna::cuda_executor> scratch;

  call(lacuna::cuda_executor const& e, attention_shape const& s, Pattern const& pattern, bench::topics topics)
      : exec{e}, attention{pattern}, data{s, topics}, plan{attention.plan_prefill(e, s)}, scratch{e, plan.workspace_bytes()} {}

  lacuna::attention_io<lacuna::bfloat16> io() const { return {data.q(), data.out()}; }
  void build() const { attention.build(exec, plan, scratch, io(), data.kv()).or_throw(); }
  void attend() const { attention.attend(exec, plan, scratch, io(), data.kv()).or_throw(); }
  double pairs() const { return bench::visited_pairs(plan.layout(), scratch.data(), data.shape); }
};

void measure_block_sparse(bench::case_list const& cases, lacuna::cuda_executor const& exec) {
  if (!cases.wants("M2") && !cases.wants("M2a") && !cases.wants("M2i")) return;
  call<lacuna::block_sparse> const c{exec, {1, 131072, 131072, 32, 32}, {.keep_blocks = 100}, {.strength = 1}};
  auto const index = bench::milliseconds(exec, 3, [&] { c.build(); });
  auto const attend = bench::milliseconds(exec, 5, [&] { c.attend(); });
  auto const both = bench::milliseconds(exec, 3, [&] { c.build(), c.attend(); });
  double const pairs = c.pairs();
  bench::report_pairs("M2", both, pairs, dim, "index and attention");
  bench::report_pairs("M2a", attend, pairs, dim, c.plan.body().c_str());
  bench::report_pairs("M2i", index, 0, dim, "index");
}

/// Columns evenly spaced over the keys.
std::vector<std::int32_t> even_verticals(index_t keys, int count) {
  std::vector<std::int32_t> columns;
  for (int i = 0; i < count; ++i) columns.push_back(static_cast<std::int32_t>(keys * i / count));
  return columns;
}

/// Half of the distances are the nearest; the others come in runs of 64, evenly over the distances left.
std::vector<std::int32_t> half_slashes(index_t keys, int count) {
  constexpr int run = 64;
  std::vector<std::int32_t> distances;
  int const nearest = count / 2, rest = count - nearest, runs = lacuna::ceil_div(rest, run);
  for (int d = 0; d < nearest; ++d) distances.push_back(d);
  for (int r = 0; r < runs; ++r) {
    index_t const first = nearest + (keys - nearest - run) * (2 * r + 1) / (2 * runs);
    for (int d = 0; d < std::min(run, rest - r * run); ++d) distances.push_back(static_cast<std::int32_t>(first + d));
  }
  return distances;
}

/// The same entries for every head.
class head_sets {
 public:
  head_sets(std::vector<std::int32_t> const& entries, int heads)
      : entries_{static_cast<index_t>(entries.size())}, heads_{heads}, memory_{repeated(entries, heads)} {}
  lacuna::tensor_view<std::int32_t const, 3> view() const { return {memory_.data(), 1, heads_, entries_}; }

 private:
  static std::vector<std::int32_t> repeated(std::vector<std::int32_t> const& entries, int heads) {
    std::vector<std::int32_t> all;
    for (int h = 0; h < heads; ++h) all.insert(all.end(), entries.begin(), entries.end());
    return all;
  }
  index_t entries_;
  int heads_;
  bench::buffer<std::int32_t> memory_;
};

void measure_vertical_slash(char const* id, bench::case_list const& cases, lacuna::cuda_executor const& exec, int verticals, int slashes) {
  if (!cases.wants(id)) return;
  index_t const n = 1 << 20;
  // One forced distance, so that the plan has room for any others.
  lacuna::vertical_slash const pattern{.verticals = verticals, .slashes = slashes, .first = 0, .nearest = 1};
  call<lacuna::vertical_slash> const c{exec, {1, n, n, 32, 32}, pattern, {}};
  head_sets const columns{even_verticals(n, verticals), 32}, distances{half_slashes(n, slashes), 32};
  lacuna::slash_sets const sets{columns.view(), distances.view()};
  lacuna::workspace const sets_workspace{exec, lacuna::slash_sets_workspace_bytes(c.data.shape, sets)};
  lacuna::build_slash_sets(exec, c.data.shape, {}, sets, sets_workspace.data(), c.plan.index(c.scratch.data())).or_throw();
  auto const attend = bench::milliseconds(exec, 1, [&] { c.attend(); });
  bench::report_pairs(id, attend, c.pairs(), dim, c.plan.body().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  bench::case_list const cases{argc, argv};
  auto const exec = bench::make_executor();
  measure_block_sparse(cases, exec);
  measure_vertical_slash("M3a", cases, exec, 1000, 6096);
  measure_vertical_slash("M4a", cases, exec, 30, 2048);
}
