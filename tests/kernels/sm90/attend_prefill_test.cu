#include "support/device.cuh"
#include "support/prefill_recipes.hpp"

#include <doctest/doctest.h>

#ifdef LACUNA_HAS_SM90A
#include <lacuna/kernels/sm90/launch_prefill.cuh>

namespace {

using lacuna::index_t;
using test::lists;

template <int Dim, class T>
test::attend_result run_on_hopper(lacuna::cuda_executor const& exec, test::attend_problem<T> const& problem) {
  test::place at{exec};
  auto const args = problem.put(at);
  std::vector<std::byte> const poison(lacuna::sm90::prefill_workspace_bytes(problem.layout(), args.shape), std::byte{0x5a});
  lacuna::sm90::launch_prefill<Dim>(exec, args, problem.layout(), args.shape, at.put(poison)).or_throw();
  return problem.read(at, args);
}

template <class T, int Dim>
void agrees_with_plain_loops() {
  test::device_stream const stream;
  if (stream.exec().target() != lacuna::target::sm90a) return;
  int at = 0;
  for (auto const& recipe : test::prefill_recipes({lists::dense, lists::window, lists::members}, Dim, Dim)) {
    CAPTURE(at);
    ++at;
    test::attend_problem<T> const problem{recipe};
    auto const got = run_on_hopper<Dim>(stream.exec(), problem), right = problem.oracle();
    CHECK(test::worst_row(got, right, Dim) <= 1e-2);
    CHECK(test::excess(got.lse, right.lse, 1e-5f, 1e-4f) <= 1);
  }
}

TEST_CASE("the Hopper prefill body equals plain loops, bf16, head dim 64") { agrees_with_plain_loops<lacuna::bfloat16, 64>(); }
TEST_CASE("the Hopper prefill body equals plain loops, bf16, head dim 128") { agrees_with_plain_loops<lacuna::bfloat16, 128>(); }

/// Columns between spans; list tiles that several blocks share, so that columns past a block's last row occur.
template <int Dim>
void columns_agree_with_plain_loops() {
  test::device_stream const stream;
  if (stream.exec().target() != lacuna::target::sm90a) return;
  auto recipes = test::prefill_recipes({lists::mixed}, Dim, Dim);
  for (int const columns : {1, 63, 64, 127, 128, 129, 1000})
    for (int const group : {1, 3, 16})
      recipes.push_back({.shape = {1, 140, 4200, 2 * group, 2, Dim, Dim}, .lists = lists::mixed, .list_heads = 2, .columns = columns});
  recipes.push_back({.shape = {1, 200, 700, 28, 4, Dim, Dim}, .lists = lists::mixed, .tile_rows = 128, .columns = 200});
  recipes.push_back({.shape = {2, 150, 600, 9, 3, Dim, Dim}, .lists = lists::mixed, .list_heads = 1, .columns = 150});
  int at = 0;
  for (auto const& recipe : recipes) {
    CAPTURE(at);
    ++at;
    test::attend_problem<lacuna::bfloat16> const problem{recipe};
    auto const got = run_on_hopper<Dim>(stream.exec(), problem), right = problem.oracle();
    CHECK(test::worst_row(got, right, Dim) <= 1e-2);
    CHECK(test::excess(got.lse, right.lse, 1e-5f, 1e-4f) <= 1);
  }
}

TEST_CASE("the Hopper prefill body equals plain loops with columns, head dim 64") { columns_agree_with_plain_loops<64>(); }
TEST_CASE("the Hopper prefill body equals plain loops with columns, head dim 128") { columns_agree_with_plain_loops<128>(); }

TEST_CASE("50 launches of the Hopper prefill body with columns give the same bits") {
  test::device_stream const stream;
  if (stream.exec().target() != lacuna::target::sm90a) return;
  test::attend_problem<lacuna::bfloat16> const problem{
      {.shape = {2, 300, 900, 6, 2, 64, 64}, .lists = lists::mixed, .list_heads = 2, .columns = 200}};
  auto const first = run_on_hopper<64>(stream.exec(), problem);
  for (int round = 1; round < 50; ++round) REQUIRE(run_on_hopper<64>(stream.exec(), problem) == first);
}

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
  CHECK(lacuna::sm90::launch_prefill<64>(stream.exec(), args, problem.layout(), args.shape, workspace).message() ==
        "k starts off a 16-byte boundary");
  args.kv.keys.data -= 1, args.kv.values.stride[1] += 1;
  CHECK(lacuna::sm90::launch_prefill<64>(stream.exec(), args, problem.layout(), args.shape, workspace).message().find("v has stride") == 0);
}

}  // namespace
#endif
