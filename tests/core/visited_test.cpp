#include <lacuna/core/visited.hpp>
#include <lacuna/pattern/a_shape.hpp>
#include <lacuna/pattern/block_sparse.hpp>
#include <lacuna/pattern/dense.hpp>
#include <lacuna/pattern/per_head.hpp>
#include <lacuna/pattern/tri_shape.hpp>
#include <lacuna/pattern/vertical_slash.hpp>

#include <doctest/doctest.h>

#include "support/pattern_problem.hpp"
#include "support/place.hpp"

namespace {

using lacuna::index_t;
using test::pattern_problem;

lacuna::host_executor const host{2};

/// Key by key and row by row.
lacuna::pair_count count_all(lacuna::sparse_index const& index, pattern_problem const& p) {
  lacuna::pair_count count;
  for (index_t b = 0; b < p.shape.batch; ++b)
    for (int h = 0; h < p.shape.query_heads; ++h) {
      auto const s = p.sequence(b);
      int const list = lacuna::list_head(h, p.shape.query_heads, index.heads);
      auto const& rule = index.rules[index.head_at(b, list)];
      for (index_t i = 0; i < s.queries; ++i) {
        index_t const at = s.position(i);
        auto const row = index.row(s, b, list, i / index.tile_rows);
        auto const seen = [&](index_t key) { return (!index.causal || key <= at) && rule.visible(at, key); };
        for (int e = 0; e < row.span_count(); ++e)
          for (index_t key = row.span_at(e).begin; key < row.span_at(e).end; ++key)
            count.visited += seen(key) && (row.members(e) >> (i % index.tile_rows & 63) & 1);
        for (int c = 0; c < row.column_count; ++c) count.visited += row.reads_column(c) && seen(row.columns[c]);
        for (index_t key = 0; key < s.keys; ++key) count.total += !index.causal || key <= at;
      }
    }
  return count;
}

template <class Pattern>
void check_count(Pattern const& pattern, pattern_problem const& p) {
  auto const held = test::build_index(host, pattern, p);
  auto const counted = lacuna::visited_pairs(held.index, p.shape, p.lengths()), right = count_all(held.index, p);
  CHECK(counted.visited == right.visited);
  CHECK(counted.total == right.total);
}

TEST_CASE("pairs are counted element by element for every pattern") {
  for (bool const causal : {true, false})
    for (index_t const queries : {1, 64, 130}) {
      pattern_problem p{.shape = {2, queries, 150, 4, 2, 8, 8}, .causal = causal};
      p.query_lengths = {static_cast<int>(queries), static_cast<int>(queries / 2)}, p.key_lengths = {150, 100};
      p.fill(1);
      check_count(lacuna::dense{}, p);
      check_count(lacuna::a_shape{7, 30}, p);
      check_count(lacuna::a_shape{70, 1}, p);
      check_count(lacuna::tri_shape{3, 20, 40}, p);
      check_count(lacuna::vertical_slash{.verticals = 20, .slashes = 9, .first = 3, .nearest = 4}, p);
      check_count(lacuna::vertical_slash{.verticals = 20, .slashes = 9, .first = 3, .nearest = 4, .tile = 100}, p);
      check_count(lacuna::block_sparse_of<16>{3}, p);
    }
}

TEST_CASE("heads of several kinds are counted by their own rules") {
  pattern_problem p{.shape = {1, 100, 130, 2, 1, 8, 8}};
  p.fill(2);
  check_count(lacuna::per_head<lacuna::a_shape, lacuna::block_sparse>{{lacuna::a_shape{5, 9}, lacuna::block_sparse{1}}}, p);
}

TEST_CASE("queries before the first key see nothing") {
  pattern_problem p{.shape = {1, 90, 90, 1, 1, 8, 8}, .query_lengths = {90}, .key_lengths = {20}};
  p.fill(3);
  check_count(lacuna::dense{}, p);
  check_count(lacuna::a_shape{2, 5}, p);
}

TEST_CASE("memberships are respected") {
  pattern_problem p{.shape = {1, 50, 90, 1, 1, 8, 8}};
  p.fill(4);
  test::held_index held{{.batch = 1, .heads = 1, .queries = 50, .tile_rows = 32, .capacity = {.spans = 3, .members = true}}};
  auto const& x = held.index;
  x.prefix[0] = 4, x.rules[0] = {.sinks = 10, .window = 30};
  std::mt19937_64 engine{5};
  for (int tile = 0; tile < 2; ++tile) {
    x.row_count[tile] = 3;
    for (int e = 0; e < 3; ++e) x.own[tile * 3 + e] = {6 + 20 * e, 20 + 30 * e}, x.members[tile * 3 + e] = engine();
    x.own[tile * 3 + 1].begin = 30, x.own[tile * 3 + 2].begin = 60;
  }
  CHECK(lacuna::visited_pairs(x, p.shape).visited == count_all(x, p).visited);
}

TEST_CASE("the share of an empty problem is 1, that of a dense one too") {
  CHECK(lacuna::pair_count{}.share() == 1);
  pattern_problem p{.shape = {1, 70, 70, 1, 1, 8, 8}};
  p.fill(6);
  auto const held = test::build_index(host, lacuna::dense{}, p);
  CHECK(lacuna::visited_pairs(held.index, p.shape).share() == 1);
  CHECK(lacuna::visited_pairs(held.index, p.shape).total == 70 * 71 / 2);
}

TEST_CASE("a million tokens are counted without visiting keys") {
  lacuna::attention_shape const shape{1, 1 << 20, 1 << 20, 32, 8, 8, 8};
  pattern_problem p{.shape = shape};
  test::held_index held{{.batch = 1, .heads = 1, .queries = 1 << 20, .capacity = {.spans = 1, .shared_spans = 2}}};
  auto const in = lacuna::build_inputs<float, lacuna::contiguous_kv<float>>{shape, {}, {}, {}, {}};
  lacuna::build_all(lacuna::a_shape{1024, 4096}, host, in, nullptr, held.index).or_throw();
  index_t const n = 1 << 20, full = n - 5120;  // rows that see 5120 keys
  CHECK(lacuna::visited_pairs(held.index, shape).visited == 32 * (full * 5120 + index_t{5120} * 5121 / 2));
}

}  // namespace
