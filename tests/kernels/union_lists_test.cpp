#include "support/list_problem.hpp"

#include <doctest/doctest.h>

#include <map>

namespace {

using lacuna::index_t;
using test::list_problem, test::join;

/// Keys -> readers of one joined row, key by key from the lists themselves.
std::map<index_t, std::uint64_t> readers_of(list_problem const& p, index_t b, int h, index_t joined_tile) {
  auto const x = p.index();
  auto const s = p.sequence(b);
  std::map<index_t, std::uint64_t> readers;
  for (int m = 0; m < p.recipe.members; ++m) {
    index_t const tile = joined_tile * p.recipe.members + m;
    if (x.rows_of(s, tile) == 0) continue;
    auto const row = x.row(s, b, h, tile);
    for (int e = 0; e < row.span_count(); ++e)
      for (index_t key = row.span_at(e).begin; key < row.span_at(e).end; ++key) readers[key] |= std::uint64_t{1} << m;
  }
  return readers;
}

/// What a member's own limit hides is not compared: readers of a causal index never look there.
void check_row(list_problem const& p, lacuna::sparse_index const& joined, index_t b, int h, index_t tile) {
  auto const x = p.index();
  auto const s = p.sequence(b);
  auto const row = joined.row(s, b, h, tile);
  auto expected = readers_of(p, b, h, tile);
  REQUIRE(row.prefix == 0);
  REQUIRE(row.shared_count == 0);
  REQUIRE(row.own_count <= joined.capacity.spans);
  lacuna::span before{-1, -1};
  std::uint64_t before_members = 0;
  for (int e = 1; e < row.span_count(); ++e) {
    lacuna::span const raw = row.own[e - 1];
    REQUIRE(raw.begin < raw.end);
    REQUIRE(raw.begin >= before.end);
    REQUIRE((raw.begin > before.end || row.members(e) != before_members));  // entries part only where readers change
    REQUIRE(row.members(e) != 0);
    for (index_t key = row.span_at(e).begin; key < row.span_at(e).end; ++key) {
      std::uint64_t visible = 0;
      for (int m = 0; m < p.recipe.members; ++m)
        if (key < x.limit_of(s, tile * p.recipe.members + m)) visible |= std::uint64_t{1} << m;
      REQUIRE((row.members(e) & visible) == expected[key]);
      expected.erase(key);
    }
    before = raw, before_members = row.members(e);
  }
  CHECK(expected.empty());
}

void check_all(list_problem const& p, lacuna::sparse_index const& joined) {
  for (index_t b = 0; b < joined.batch; ++b)
    for (int h = 0; h < joined.heads; ++h) {
      CHECK(joined.rules[joined.head_at(b, h)].sinks == p.index().rules[joined.head_at(b, h)].sinks);
      CHECK(joined.rules[joined.head_at(b, h)].window == p.index().rules[joined.head_at(b, h)].window);
      for (index_t tile = 0; tile < joined.tiles; ++tile) check_row(p, joined, b, h, tile);
    }
}

}  // namespace

TEST_CASE("a joined list names for every key exactly the tiles whose own lists have it, ascending and without overlap") {
  for (auto [name, recipe] : test::list_recipes())
    for (unsigned const seed : {1u, 2u, 3u}) {
      CAPTURE(name);
      recipe.seed = seed;
      list_problem const p{recipe};
      auto memory = join(lacuna::host_executor{2}, p);
      check_all(p, lacuna::make_index(p.joined_layout, memory.data()));
    }
}

TEST_CASE("a joined list does not depend on the team that joins it") {
  for (auto const& [name, recipe] : test::list_recipes()) {
    CAPTURE(name);
    list_problem const p{recipe};
    auto const one = join(lacuna::host_executor{1}, p);
    for (int const size : {2, 3, 8}) CHECK(join(test::threaded_executor{size}, p) == one);
  }
}

TEST_CASE("room for joined lists is bounded by the ends of their spans, by what they read and by the keys") {
  lacuna::index_layout const per_token{
      .batch = 1, .heads = 2, .queries = 1 << 17, .tile_rows = 1, .granularity = 64, .capacity = {.spans = 96}};
  CHECK(lacuna::union_lists::joined_capacity(per_token, 8, 1 << 17) == lacuna::index_capacity{.spans = 2 * 8 * 97 - 1, .members = true});
  CHECK(lacuna::union_lists::joined_capacity(per_token, 8, 6400).spans == 101);
  auto whole_blocks = per_token;
  whole_blocks.capacity.blocks = 96;
  CHECK(lacuna::union_lists::joined_capacity(whole_blocks, 8, 1 << 17).spans == 8 * 96 + 1);
  CHECK(lacuna::union_lists::takes(per_token, 8));
  CHECK(!lacuna::union_lists::takes(per_token, 1));
  CHECK(!lacuna::union_lists::takes(per_token, 65));
  auto masked = per_token, with_columns = per_token;
  masked.capacity.members = true, with_columns.capacity.columns = 1;
  for (auto const& l : {masked, with_columns}) CHECK(!lacuna::union_lists::takes(l, 8));
}
