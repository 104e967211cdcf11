#include "support/attend_problem.hpp"
#include "support/device.cuh"

#include <doctest/doctest.h>

#ifdef LACUNA_HAS_SM90A
#include <lacuna/kernels/pair_lists.hpp>
#include <lacuna/kernels/sm90/launch_prefill.cuh>

namespace {

using lacuna::index_t;
using test::attend_recipe, test::lists;

template <int Dim, class T>
test::attend_result run_on_hopper(lacuna::cuda_executor const& exec, test::attend_problem<T> const& problem) {
  test::place at{exec};
  auto const args = problem.put(at);
  std::vector<std::byte> const poison(lacuna::sm90::prefill_workspace_bytes(problem.layout(), args.shape), std::byte{0x5a});
  lacuna::sm90::launch_prefill<Dim>(exec, args, problem.layout(), at.put(poison)).or_throw();
  return problem.read(at, args);
}

/// Error model: the kernel rounds weights and outputs to 16 bits, so a row may be off by 1e-2 of its norm.
double worst_row(test::attend_result const& got, test::attend_result const& right, int dim) {
  double worst = 0;
  for (std::size_t row = 0; row * dim < right.out.size(); ++row) {
    double error = 0, norm = 0;
    for (std::size_t i = row * dim; i < (row + 1) * dim; ++i) {
      if (std::isnan(right.out[i]) && std::isnan(got.out[i])) continue;  // a row that nobody may write
      error += (got.out[i] - right.out[i]) * (got.out[i] - right.out[i]), norm += right.out[i] * right.out[i];
    }
    double const relative = norm > 0 ? std::sqrt(error / norm) : error;
    if (!(relative <= worst)) worst = std::isnan(relative) ? lacuna::infinity : relative;
  }
  return worst;
}

/// Shapes that fill the kernel's 128 rows in every way, of head dim `dim`.
std::vector<attend_recipe> recipes(int dim) {
  auto const shape = [&](index_t batch, index_t queries, index_t keys, int heads, int kv) {
    return lacuna::attention_shape{batch, queries, keys, heads, kv, dim, dim};
  };
  std::vector<attend_recipe> all;
  for (auto const kind : {lists::dense, lists::window, lists::members}) {
    for (index_t const n : {1, 63, 64, 65, 129, 300}) all.push_back({shape(1, n, n, 2, 2), kind});
    all.push_back({shape(2, 130, 70, 2, 1), kind});
    all.push_back({shape(1, 3, 1, 1, 1), kind});
    all.push_back({.shape = shape(1, 200, 333, 7, 1), .lists = kind, .list_heads = 1});
    all.push_back({.shape = shape(2, 150, 150, 9, 3), .lists = kind, .tile_rows = 16, .list_heads = 3});
    all.push_back({.shape = shape(1, 66, 66, 16, 1), .lists = kind, .tile_rows = 8, .list_heads = 1});
    all.push_back({.shape = shape(2, 65, 170, 2, 2), .lists = kind, .causal = false});
    all.push_back({.shape = shape(1, 90, 180, 4, 1), .lists = kind, .list_heads = 1, .soft_cap = 1.5f, .sink_logits = true});
    all.push_back({.shape = shape(4, 70, 100, 4, 2), .lists = kind, .key_lengths = {100, -1, 0, 7}});
    all.push_back({.shape = shape(3, 80, 130, 4, 2), .lists = kind, .query_offsets = {0, 80, 80, 97}, .key_offsets = {0, 130, 140, 157}});
  }
  return all;
}

template <class T, int Dim>
void agrees_with_plain_loops() {
  test::device_stream const stream;
  if (stream.exec().target() != lacuna::target::sm90a) return;
  int at = 0;
  for (auto const& recipe : recipes(Dim)) {
    CAPTURE(at);
    ++at;
    test::attend_problem<T> const problem{recipe};
    auto const got = run_on_hopper<Dim>(stream.exec(), problem), right = problem.oracle();
    CHECK(worst_row(got, right, Dim) <= 1e-2);
    CHECK(test::excess(got.lse, right.lse, 1e-5f, 1e-4f) <= 1);
  }
}

TEST_CASE("the Hopper prefill body equals plain loops, bf16, head dim 64") { agrees_with_plain_loops<lacuna::bfloat16, 64>(); }
TEST_CASE("the Hopper prefill body equals plain loops, bf16, head dim 128") { agrees_with_plain_loops<lacuna::bfloat16, 128>(); }

TEST_CASE("50 launches of the Hopper prefill body give the same bits") {
  test::device_stream const stream;
  if (stream.exec().target() != lacuna::target::sm90a) return;
  test::attend_problem<lacuna::bfloat16> const problem{{.shape = {2, 300, 500, 6, 2, 64, 64}, .lists = lists::window, .list_heads = 2}};
  auto const first = run_on_hopper<64>(stream.exec(), problem);
  for (int round = 1; round < 50; ++round) REQUIRE(run_on_hopper<64>(stream.exec(), problem) == first);
}

TEST_CASE("what the copy engine cannot address is refused by name") {
  test::device_stream const stream;
  test::attend_problem<lacuna::bfloat16> const problem{{.shape = {1, 64, 64, 2, 2, 64, 64}}};
  test::place at{stream.exec()};
  auto args = problem.put(at);
  args.kv.keys.data += 1;
  std::vector<std::byte> const memory(lacuna::sm90::prefill_workspace_bytes(problem.layout(), args.shape));
  auto* const workspace = at.put(memory);
  CHECK(lacuna::sm90::launch_prefill<64>(stream.exec(), args, problem.layout(), workspace).message() == "k starts off a 16-byte boundary");
  args.kv.keys.data -= 1, args.kv.values.stride[1] += 1;
  CHECK(lacuna::sm90::launch_prefill<64>(stream.exec(), args, problem.layout(), workspace).message().find("v has stride") == 0);
}

}  // namespace
#endif
