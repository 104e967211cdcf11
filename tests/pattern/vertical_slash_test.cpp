#include <doctest/doctest.h>

#include <string>

#include "support/place.hpp"
#include "support/slash_oracle.hpp"

namespace {

using lacuna::index_t;
using lacuna::vertical_slash;
using test::against_definition;
using test::pattern_problem;

lacuna::host_executor const host{2};

TEST_CASE("the index equals brute force on 1000 random shapes") {
  std::mt19937 engine{1};
  test::verdict all;
  for (int round = 0; round < 1000; ++round) {
    auto const p = test::random_problem(engine, round % 10 ? 90 : 400);
    auto const amounts = test::random_amounts(engine);
    auto const one = against_definition(host, p, amounts);
    CHECK_MESSAGE(one.equal, "round ", round);
    all += one;
  }
  CHECK(all.compared > 0.97 * all.seen);
}

TEST_CASE_TEMPLATE("16-bit queries and keys choose what their values in fp32 do", T, lacuna::bfloat16, lacuna::float16) {
  std::mt19937 engine{22};
  for (int round = 0; round < 20; ++round) {
    auto p = test::random_problem(engine, 200);
    p.round_to<T>();
    auto const amounts = test::random_amounts(engine);
    CHECK(against_definition(test::build_index<T>(host, amounts, p).index, p, amounts).equal);
    CHECK(against_definition(test::build_index<T>(test::threaded_executor{1}, amounts, p).index, p, amounts).equal);
  }
}

TEST_CASE("the portable estimate chooses what the host's does") {
  std::mt19937 engine{21};
  test::threaded_executor const portable{1};
  for (int round = 0; round < 150; ++round) {
    auto const p = test::random_problem(engine, round % 10 ? 90 : 900);  // several chunks of keys
    CHECK_MESSAGE(against_definition(portable, p, test::random_amounts(engine)), "round ", round);
  }
}

TEST_CASE("the index is the same from teams of threads that meet only at barriers") {
  std::mt19937 engine{2};
  for (int const members : {2, 5}) {
    test::threaded_executor const exec{members};
    for (int round = 0; round < 6; ++round) {
      auto const p = test::random_problem(engine, 150);
      CHECK(against_definition(exec, p, test::random_amounts(engine)));
    }
  }
}

TEST_CASE("lengths around a tile: one row left, none left, one missing") {
  for (index_t const queries : {1, 63, 64, 65, 127, 128, 129})
    for (index_t const extra : {0, 1, 70}) {
      pattern_problem p{.shape = {1, queries, queries + extra, 3, 1, 8, 8}};
      p.fill(3);
      CHECK(against_definition(host, p, {.verticals = 12, .slashes = 20, .first = 2, .nearest = 4}));
    }
}

TEST_CASE("amounts beyond the sequence read everything") {
  for (bool const causal : {true, false}) {
    pattern_problem p{.shape = {2, 130, 200, 2, 2, 8, 8}, .causal = causal};
    p.fill(4);
    auto const held = test::build_index(host, vertical_slash{.verticals = 1 << 30, .slashes = 1 << 30}, p);
    for (int b = 0; b < 2; ++b)
      for (int h = 0; h < 2; ++h)
        for (index_t tile = 0; tile < 3; ++tile) {
          auto const s = p.sequence(b);
          auto const read = test::keys_of(held.index, s, b, h, tile);
          CHECK(read.sound);
          CHECK(static_cast<index_t>(read.keys.size()) == held.index.limit_of(s, tile));
        }
  }
}

TEST_CASE("first columns and nearest distances count even if the budget is smaller") {
  pattern_problem p{.shape = {1, 500, 500, 1, 1, 8, 8}};
  p.fill(5);
  auto const held = test::build_index(host, vertical_slash{.verticals = 0, .slashes = 0}, p);
  auto const read = test::keys_of(held.index, p.sequence(0), 0, 0, 6).keys;  // queries 384 .. 447
  for (int j = 0; j < 448; ++j) CHECK(std::binary_search(read.begin(), read.end(), j) == (j < 30 || j >= 384 - 99));
}

TEST_CASE("distance 0 is there whatever the amounts") {
  for (bool const causal : {true, false}) {
    pattern_problem p{.shape = {1, 200, 230, 2, 1, 8, 8}, .causal = causal};
    p.fill(6);
    vertical_slash const amounts{.verticals = 0, .slashes = 0, .first = 0, .nearest = 0, .tile = 1};
    auto const held = test::build_index(host, amounts, p);
    for (index_t i = 0; i < 200; ++i)
      CHECK(test::keys_of(held.index, p.sequence(0), 0, 1, i).keys == std::vector<std::int32_t>{static_cast<int>(30 + i)});
  }
}

TEST_CASE("a prompt of one token reads it") {
  pattern_problem p{.shape = {1, 1, 1, 1, 1, 8, 8}};
  p.fill(7);
  CHECK(test::keys_of(test::build_index(host, vertical_slash{}, p).index, p.sequence(0), 0, 0, 0).keys == std::vector<std::int32_t>{0});
}

TEST_CASE("every sequence of a batch uses its own sums") {
  pattern_problem both{.shape = {2, 180, 180, 2, 1, 8, 8}};
  both.fill(8);
  vertical_slash const amounts{.verticals = 20, .slashes = 12, .first = 1, .nearest = 2, .tile = 16};
  auto const joined = test::build_index(host, amounts, both);
  bool differ = false;
  for (int const b : {0, 1}) {
    pattern_problem one{.shape = {1, 180, 180, 2, 1, 8, 8}};
    one.fill(8);
    std::copy_n(both.q.begin() + b * 180 * 16, 180 * 16, one.q.begin());
    std::copy_n(both.k.begin() + b * 180 * 8, 180 * 8, one.k.begin());
    auto const alone = test::build_index(host, amounts, one);
    for (index_t tile = 0; tile < joined.index.tiles; ++tile) {
      auto const keys = test::keys_of(joined.index, both.sequence(b), b, 1, tile).keys;
      CHECK(keys == test::keys_of(alone.index, one.sequence(0), 0, 1, tile).keys);
      differ |= keys != test::keys_of(joined.index, both.sequence(1 - b), 1 - b, 1, tile).keys;
    }
  }
  CHECK(differ);
}

TEST_CASE("keys of large norm: the choice is that of the scaled logits in double") {
  for (float const spread : {3.0f, 12.0f}) {
    pattern_problem p{.shape = {1, 300, 300, 2, 1, 64, 64}, .logits = {.scale = 0.125f}, .spread = spread};
    p.fill(9);
    for (auto& x : p.q) x /= spread;
    CHECK(against_definition(host, p, {.verticals = 40, .slashes = 40, .first = 3, .nearest = 5, .tile = 8}));
  }
}

TEST_CASE("head dims padded with zeros choose as unpadded ones do: the scale is the caller's") {
  pattern_problem small{.shape = {1, 200, 200, 1, 1, 24, 24}, .logits = {.scale = 0.2f}};
  small.fill(10);
  pattern_problem wide{.shape = {1, 200, 200, 1, 1, 32, 32}, .logits = {.scale = 0.2f}};
  wide.fill(10);
  for (auto* const x : {&wide.q, &wide.k}) std::fill(x->begin(), x->end(), 0.0f);
  for (index_t t = 0; t < 200; ++t)
    for (int d = 0; d < 24; ++d) wide.q[t * 32 + d] = small.q[t * 24 + d], wide.k[t * 32 + d] = small.k[t * 24 + d];
  vertical_slash const amounts{.verticals = 30, .slashes = 20, .first = 2, .nearest = 2, .tile = 4};
  auto const a = test::build_index(host, amounts, small), b = test::build_index(host, amounts, wide);
  for (index_t tile = 0; tile < a.index.tiles; ++tile)
    CHECK(test::keys_of(a.index, small.sequence(0), 0, 0, tile).keys == test::keys_of(b.index, wide.sequence(0), 0, 0, tile).keys);
}

TEST_CASE("a sequence with more queries than keys gets the lists of its last queries") {
  pattern_problem p{.shape = {1, 40, 40, 1, 1, 8, 8}, .query_lengths = {40}, .key_lengths = {13}};
  p.fill(11);
  CHECK(against_definition(host, p, {.verticals = 4, .slashes = 3, .first = 1, .nearest = 1, .tile = 8}));
}

TEST_CASE("amounts and shapes that do not fit are refused by name") {
  lacuna::attention_shape const shape{1, 100, 100, 2, 1, 8, 8};
  auto const message = [&](vertical_slash const& p, lacuna::attention_shape const& s) -> std::string {
    try {
      p.check(s);
    } catch (lacuna::invalid_argument const& e) {
      return e.what();
    }
    return "";
  };
  CHECK(message({}, shape).empty());
  CHECK(message({.verticals = -1}, shape) == "verticals is -1; expected at least 0");
  CHECK(message({.slashes = -2}, shape) == "slashes is -2; expected at least 0");
  CHECK(message({.first = -1}, shape) == "first is -1; expected at least 0");
  CHECK(message({.nearest = -1}, shape) == "nearest is -1; expected at least 0");
  CHECK(message({.estimate_rows = 0}, shape) == "estimate_rows is 0; expected 1 to 128");
  CHECK(message({.tile = 257}, shape) == "tile is 257; expected 1 to 256");
  CHECK(message({}, {1, 101, 100, 2, 1, 8, 8}) == "queries is 101, keys is 100; vertical_slash expects at most as many queries as keys");
}

TEST_CASE("memory is linear in the keys at a million tokens") {
  lacuna::attention_shape const shape{1, 1 << 20, 1 << 20, 32, 8, 128, 128};
  vertical_slash const amounts{};
  lacuna::index_layout const layout{1, 32, shape.queries, 64, 1, true, amounts.capacity(shape)};
  CHECK(lacuna::index_bytes(layout) < std::size_t{100} << 20);
  CHECK(amounts.workspace_bytes(shape) < std::size_t{800} << 20);
}

}  // namespace
