#include <lacuna/kernels/top_k.hpp>
#include <lacuna/pattern/a_shape.hpp>
#include <lacuna/pattern/per_head.hpp>

#include <doctest/doctest.h>

#include "support/block_oracle.hpp"
#include "support/device.cuh"
#include "support/slash_oracle.hpp"

namespace {

using lacuna::index_t;
using test::against_definition;

TEST_CASE("vertical-slash indices built on a GPU equal brute force") {
  test::device_stream const stream;
  std::mt19937 engine{1};
  test::verdict all;
  for (int round = 0; round < 120; ++round) {
    auto const p = test::random_problem(engine, round % 8 ? 150 : 900);
    auto const one = against_definition(stream.exec(), p, test::random_amounts(engine));
    CHECK_MESSAGE(one.equal, "round ", round);
    all += one;
  }
  CHECK(all.compared > 0.95 * all.seen);
}

TEST_CASE_TEMPLATE("16-bit queries and keys choose on a GPU what their values in fp32 do", T, lacuna::bfloat16, lacuna::float16) {
  test::device_stream const stream;
  std::mt19937 engine{2};
  for (int round = 0; round < 10; ++round) {
    auto p = test::random_problem(engine, 300);
    p.round_to<T>();
    auto const amounts = test::random_amounts(engine);
    CHECK(against_definition(test::build_index<T>(stream.exec(), amounts, p).index, p, amounts).equal);
    CHECK(against_definition(test::build_index<T>(stream.exec(), lacuna::block_sparse{2}, p).index, p, lacuna::block_sparse{2}).equal);
  }
}

TEST_CASE("block-sparse indices built on a GPU equal brute force") {
  test::device_stream const stream;
  std::mt19937 engine{3};
  for (int round = 0; round < 60; ++round) {
    auto const p = test::random_problem(engine, round % 8 ? 200 : 1500);
    auto one = against_definition(stream.exec(), p, lacuna::block_sparse_of<16>{static_cast<int>(1 + engine() % 6)});
    one += against_definition(stream.exec(), p, lacuna::block_sparse{static_cast<int>(1 + engine() % 3)});
    CHECK_MESSAGE(one.equal, "round ", round);
  }
}

TEST_CASE("heads of several kinds have on a GPU the lists that they have alone") {
  test::device_stream const stream;
  test::pattern_problem p{.shape = {2, 150, 200, 3, 1, 8, 8}, .query_lengths = {150, 77}, .key_lengths = {190, 100}};
  p.fill(4);
  lacuna::vertical_slash const slashes{.verticals = 12, .slashes = 9, .first = 1, .nearest = 2};
  lacuna::per_head<lacuna::a_shape, lacuna::vertical_slash, lacuna::block_sparse> const mixed{
      {lacuna::a_shape{3, 20}, slashes, lacuna::block_sparse{2}}};
  auto const all = test::build_index(stream.exec(), mixed, p), one = test::build_index(stream.exec(), slashes, p),
             two = test::build_index(stream.exec(), lacuna::block_sparse{2}, p),
             zero = test::build_index(stream.exec(), lacuna::a_shape{3, 20}, p);
  for (index_t b = 0; b < 2; ++b)
    for (index_t tile = 0; tile < 3; ++tile) {
      auto const s = p.sequence(b);
      CHECK(test::keys_of(all.index, s, b, 0, tile).keys == test::keys_of(zero.index, s, b, 0, tile).keys);
      CHECK(test::keys_of(all.index, s, b, 1, tile).keys == test::keys_of(one.index, s, b, 1, tile).keys);
      CHECK(test::keys_of(all.index, s, b, 2, tile).keys == test::keys_of(two.index, s, b, 2, tile).keys);
    }
}

TEST_CASE("top_k on a GPU equals the host's, ties and long rows included, on all of 50 launches") {
  test::device_stream const stream;
  std::mt19937 engine{5};
  std::normal_distribution<float> normal;
  for (index_t const n : {249, 4096, 40'000, (1 << 20) + 3}) {
    std::vector<float> scores(n);
    for (auto& x : scores) x = engine() % 10 < 7 ? (engine() % 2 ? 0.0f : -0.0f) : normal(engine);
    index_t const keep = std::min(n, index_t{2048});
    std::vector<std::int32_t> right(keep), count(1);
    lacuna::host_executor{1}.launch({1, 128}, lacuna::top_k_rows{scores.data(), 1, n, 2048, right.data(), count.data()}).or_throw();
    test::place at{stream.exec()};
    auto* const chosen = at.make<std::int32_t>(keep);
    auto* const chosen_count = at.make<std::int32_t>(1);
    lacuna::top_k_rows const body{at.put(scores), 1, n, 2048, chosen, chosen_count};
    for (int launch = 0; launch < (n > 40'000 ? 3 : 50); ++launch) {
      stream.exec().launch({1, launch % 2 ? 128 : 256}, body).or_throw();
      CHECK(at.get(chosen_count, 1) == count);
      CHECK(at.get(chosen, keep) == right);
    }
  }
}

}  // namespace
