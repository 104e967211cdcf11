#include <doctest/doctest.h>

#include <string>

#include "support/place.hpp"
#include "support/slash_oracle.hpp"

namespace {

using lacuna::index_t;

/// Sets for every list of one shape, padded to the same number of entries.
struct given {
  lacuna::attention_shape shape;
  bool causal = true;
  int tile = 64;
  std::vector<std::vector<std::int32_t>> verticals, distances;  // [batch * lists]
  lacuna::sequence_lengths lengths{};

  int lists() const { return static_cast<int>(verticals.size() / shape.batch); }
};

std::vector<std::int32_t> padded(std::vector<std::vector<std::int32_t>> const& sets, std::int32_t filler, index_t& most) {
  most = 0;
  for (auto const& s : sets) most = std::max(most, static_cast<index_t>(s.size()));
  std::vector<std::int32_t> flat;
  for (auto s : sets) s.resize(most, filler), flat.insert(flat.end(), s.begin(), s.end());
  return flat;
}

template <class Exec>
test::held_index build(Exec const& exec, given const& g) {
  index_t columns = 0, slashes = 0;
  auto const v = padded(g.verticals, -1, columns), d = padded(g.distances, 0x7fffffff, slashes);
  lacuna::slash_sets const sets{{v.data(), g.shape.batch, g.lists(), columns}, {d.data(), g.shape.batch, g.lists(), slashes}};
  test::held_index held{{.batch = static_cast<int>(g.shape.batch),
                         .heads = g.lists(),
                         .queries = g.shape.queries,
                         .tile_rows = g.tile,
                         .causal = g.causal,
                         .capacity = lacuna::slash_sets_capacity(g.shape, sets)}};
  std::vector<std::max_align_t> workspace(lacuna::slash_sets_workspace_bytes(g.shape, sets) / sizeof(std::max_align_t) + 1);
  lacuna::build_slash_sets(exec, g.shape, g.lengths, sets, reinterpret_cast<std::byte*>(workspace.data()), held.index).or_throw();
  return held;
}

bool equals_definition(lacuna::sparse_index const& index, given const& g) {
  bool equal = true;
  for (index_t b = 0; b < g.shape.batch; ++b)
    for (int l = 0; l < g.lists(); ++l) {
      auto const& v = g.verticals[b * g.lists() + l];
      auto const& d = g.distances[b * g.lists() + l];
      test::slash_choice choice;
      for (auto const c : v)
        if (c >= 0) choice.columns.insert(c);
      for (auto const x : d)
        if (x >= 0 || !g.causal) choice.distances.insert(x);
      auto const s = lacuna::sequence_at(g.lengths, g.shape, b);
      for (index_t tile = 0; tile < index.tiles; ++tile) {
        auto const read = test::keys_of(index, s, b, l, tile);
        equal &= read.sound && read.keys == test::keys_by_definition(s, g.causal, tile, g.tile, choice);
      }
    }
  return equal;
}

lacuna::host_executor const host{2};

given random_sets(std::mt19937& engine) {
  auto const pick = [&](index_t low, index_t high) { return low + static_cast<index_t>(engine() % (high - low + 1)); };
  given g;
  g.shape = {.batch = pick(1, 2), .keys = pick(1, 300), .query_heads = 2, .kv_heads = 2, .key_dim = 8, .value_dim = 8};
  g.shape.queries = pick(1, g.shape.keys), g.causal = pick(0, 2) > 0, g.tile = static_cast<int>(pick(1, 90));
  for (int l = 0; l < g.shape.batch * 2; ++l) {
    std::vector<std::int32_t> v, d;
    for (auto n = pick(0, 60); n > 0; --n) v.push_back(static_cast<std::int32_t>(pick(0, g.shape.keys + 5)) - 2);
    for (auto n = pick(0, 40); n > 0; --n)
      d.push_back(static_cast<std::int32_t>(pick(0, g.shape.keys + g.shape.queries + 4) - g.shape.queries - 1));
    v.insert(v.end(), v.begin(), v.begin() + v.size() / 2), d.insert(d.end(), d.begin(), d.begin() + d.size() / 3);
    std::shuffle(v.begin(), v.end(), engine), std::shuffle(d.begin(), d.end(), engine);
    g.verticals.push_back(v), g.distances.push_back(d);
  }
  return g;
}

TEST_CASE("sets of a caller, in any order and some entries twice, read what the definition says") {
  std::mt19937 engine{1};
  for (int round = 0; round < 1000; ++round) {
    given const g = random_sets(engine);
    CHECK_MESSAGE(equals_definition(build(host, g).index, g), "round ", round);
  }
}

TEST_CASE("sets on teams of threads that meet only at barriers") {
  std::mt19937 engine{2};
  for (int round = 0; round < 8; ++round) {
    given const g = random_sets(engine);
    CHECK(equals_definition(build(test::threaded_executor{2 + round % 3}, g).index, g));
  }
}

TEST_CASE("shuffled and repeated entries equal sorted unique ones") {
  given sorted{.shape = {1, 500, 500, 1, 1, 8, 8}, .verticals = {{3, 8, 9, 77, 300}}, .distances = {{0, 5, 64, 200}}};
  given messy = sorted;
  messy.verticals = {{300, 9, 3, 300, 77, 8, 3}}, messy.distances = {{200, 0, 64, 5, 0, 200, 64}};
  auto const a = build(host, sorted), b = build(host, messy);
  CHECK(a.index.column_count[0] == b.index.column_count[0]);
  CHECK(a.index.shared_count[0] == b.index.shared_count[0]);
  for (index_t tile = 0; tile < 8; ++tile) {
    lacuna::sequence const s{0, 500, 0, 500};
    CHECK(test::keys_of(a.index, s, 0, 0, tile).keys == test::keys_of(b.index, s, 0, 0, tile).keys);
  }
}

TEST_CASE("columns are kept when every distance is longer than a tile, or there is none") {
  for (std::vector<std::int32_t> const& distances : {std::vector<std::int32_t>{100, 250}, std::vector<std::int32_t>{0x7fffffff}}) {
    given const g{.shape = {1, 400, 400, 1, 1, 8, 8}, .verticals = {{0, 17, 399}}, .distances = {distances}};
    CHECK(equals_definition(build(host, g).index, g));
  }
}

TEST_CASE("touching ranges are one span, and a partial last tile has shorter ones") {
  given const g{.shape = {1, 70, 400, 1, 1, 8, 8}, .verticals = {{0}}, .distances = {{0, 64, 129}}};
  auto const held = build(host, g);
  CHECK(held.index.shared_count[0] == 2);  // -129 .. -66, -64 .. 63
  CHECK(held.index.shared[0] == lacuna::span{-129, -65});
  CHECK(held.index.shared[1] == lacuna::span{-64, 64});
  CHECK(held.index.shared_count[1] == 3);  // 6 rows
  CHECK(held.index.shared[held.index.shared_at(0, true)] == lacuna::span{-129, -123});
}

TEST_CASE("distances below 0 look ahead without causality and are ignored with it") {
  given g{.shape = {1, 50, 50, 1, 1, 8, 8}, .causal = false, .tile = 1, .verticals = {{-1}}, .distances = {{-3}}};
  lacuna::sequence const s{0, 50, 0, 50};
  CHECK(test::keys_of(build(host, g).index, s, 0, 0, 10).keys == std::vector<std::int32_t>{13});
  g.causal = true;
  CHECK(test::keys_of(build(host, g).index, s, 0, 0, 10).keys.empty());
}

TEST_CASE("sets and indices that do not fit are refused") {
  std::vector<std::int32_t> const entries(40, 0);
  lacuna::attention_shape const shape{1, 50, 50, 2, 1, 8, 8};
  lacuna::slash_sets const sets{{entries.data(), 1, 2, 20}, {entries.data(), 1, 2, 20}};
  test::held_index const narrow{{.batch = 1, .heads = 2, .queries = 50, .capacity = {.shared_spans = 19, .columns = 20}}};
  test::held_index const other{{.batch = 1, .heads = 1, .queries = 50, .capacity = {.shared_spans = 20, .columns = 20}}};
  CHECK(lacuna::build_slash_sets(host, shape, {}, sets, nullptr, narrow.index).message() ==
        "the index has room for 19 spans and 20 columns; the sets need 20 and 20");
  CHECK(lacuna::build_slash_sets(host, shape, {}, sets, nullptr, other.index).message() == "sets are [1, 2, ...]; expected [1, 1, ...]");
}

}  // namespace
