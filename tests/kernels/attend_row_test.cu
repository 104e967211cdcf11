#include "support/attend_problem.hpp"
#include "support/device.cuh"

#include <doctest/doctest.h>

namespace {

using lacuna::index_t;

TEST_CASE_TEMPLATE("attend_row on a GPU equals plain loops in double and the host", T, float, lacuna::bfloat16, lacuna::float16) {
  test::device_stream const stream;
  lacuna::host_executor const host{2};
  for (auto const& [name, recipe] : test::attend_recipes()) {
    test::attend_problem<T> const problem{recipe};
    auto const got = problem.run(stream.exec());
    CHECK_MESSAGE(test::excess<T>(got, problem.oracle()) <= 1, name);
    CHECK_MESSAGE(test::excess<T>(got, problem.run(host)) <= 2, name);  // each may be 1 from the truth
  }
}

TEST_CASE("50 launches give the same bits") {
  test::device_stream const stream;
  for (auto const kind : {test::lists::mixed, test::lists::members})
    for (int const splits : {1, 5}) {
      test::attend_problem<lacuna::bfloat16> const problem{
          {.shape = {2, 65, 200, 6, 2, 64, 64}, .lists = kind, .splits = splits, .split_keys = 16}};
      auto const first = problem.run(stream.exec());
      for (int round = 1; round < 50; ++round) REQUIRE(problem.run(stream.exec()) == first);
    }
}

TEST_CASE("a captured launch replays at other lengths, bit for bit like a direct one") {
  test::device_stream const stream;
  for (int const splits : {1, 4}) {
    test::attend_recipe const capacity{
        .shape = {4, 1, 130, 6, 2, 32, 32}, .splits = splits, .split_keys = 33, .key_lengths = {130, 130, 130, 130}};
    test::attend_problem<float> const problem{capacity};
    test::place at{stream.exec()};
    auto const args = problem.put(at);
    auto const parts = problem.put_parts(at);
    test::recorded_graph const graph{stream, [&] { return problem.launch(at.exec(), args, parts); }};
    for (std::vector<std::int32_t> const& lengths : {std::vector{100, -1, 0, 7}, {130, 1, 129, 64}, {500, 33, 34, 65}}) {
      at.refill(const_cast<std::int32_t*>(args.lengths.key_lengths), lengths);
      auto const poison = std::vector<float>(4 * 6 * 32, std::numeric_limits<float>::quiet_NaN());
      at.refill(args.out.data, poison);
      graph.launch();
      auto const replayed = problem.read(at, args);
      at.refill(args.out.data, poison);
      problem.launch(at.exec(), args, parts).or_throw();
      CHECK(problem.read(at, args) == replayed);
      test::attend_recipe now = capacity;
      now.key_lengths = lengths;
      CHECK(test::excess<float>(replayed, test::attend_problem<float>{now}.oracle()) <= 1);
    }
  }
}

/// A copy of `rows` on the device with `stride` elements from row to row, the gaps NaN.
template <class T>
T* spread(test::place<lacuna::cuda_executor>& at, std::vector<T> const& rows, index_t width, index_t stride) {
  auto const count = static_cast<index_t>(rows.size()) / width;
  std::size_t const elements = static_cast<std::size_t>((count - 1) * stride + width);
  T* const memory = at.make<T>(elements);
  test::check_cuda(cudaMemsetAsync(memory, 0xff, elements * sizeof(T), at.exec().stream()));
  for (index_t row = 0; row < count; ++row) at.exec().copy(memory + row * stride, rows.data() + row * width, width * sizeof(T)).or_throw();
  return memory;
}

TEST_CASE("tensors of more than 2^31 elements") {
  test::device_stream const stream;
  using T = lacuna::bfloat16;
  test::attend_problem<T> problem{{.shape = {2, 3, 70, 4, 2, 64, 64}}};
  auto const near = problem.run(stream.exec());
  test::place at{stream.exec()};
  auto args = problem.put(at);
  auto const& s = problem.recipe().shape;

  auto const token_stride = (index_t{1} << 31) / 100;  // of 140 key tokens in all
  index_t const q_stride = index_t{1} << 30;           // of 6 query tokens
  args.q.data = spread(at, problem.q(), s.query_heads * s.key_dim, q_stride);
  args.q.stride[1] = q_stride, args.q.stride[0] = q_stride * s.queries;
  args.kv.keys.data = spread(at, problem.k(), s.kv_heads * s.key_dim, token_stride);
  args.kv.values.data = spread(at, problem.v(), s.kv_heads * s.value_dim, token_stride);
  for (auto* const v : {&args.kv.keys, &args.kv.values}) v->stride[1] = token_stride, v->stride[0] = token_stride * s.keys;
  problem.launch(at.exec(), args, {}).or_throw();
  CHECK(problem.read(at, args) == near);

  auto* const far_out = at.make<T>(6 * q_stride);
  auto* const near_out = args.out.data;
  index_t const width = s.query_heads * s.value_dim;
  args.out.data = far_out, args.out.stride[1] = q_stride, args.out.stride[0] = q_stride * s.queries;
  problem.launch(at.exec(), args, {}).or_throw();
  for (int row = 0; row < 6; ++row) at.exec().copy(near_out + row * width, far_out + row * q_stride, width * sizeof(T)).or_throw();
  args.out.data = near_out;
  CHECK(problem.read(at, args) == near);
}

}  // namespace
