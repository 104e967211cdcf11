#include <lacuna/pattern/a_shape.hpp>
#include <lacuna/pattern/block_sparse.hpp>
#include <lacuna/pattern/per_head.hpp>
#include <lacuna/pattern/tri_shape.hpp>
#include <lacuna/pattern/vertical_slash.hpp>

#include <doctest/doctest.h>

#include <string>

#include "support/pattern_problem.hpp"
#include "support/place.hpp"

namespace {

using lacuna::index_t;
using test::pattern_problem;
using mixed = lacuna::per_head<lacuna::a_shape, lacuna::vertical_slash, lacuna::block_sparse, lacuna::tri_shape>;

lacuna::host_executor const host{2};

mixed heads_of_every_kind(int heads) {
  mixed p;
  for (int h = 0; h < heads; ++h) {
    if (h % 4 == 0) p.heads.emplace_back(lacuna::a_shape{h, 10 + h});
    if (h % 4 == 1) p.heads.emplace_back(lacuna::vertical_slash{.verticals = 5 + h, .slashes = 2 * h, .first = 1, .nearest = 2});
    if (h % 4 == 2) p.heads.emplace_back(lacuna::block_sparse{1 + h / 8});
    if (h % 4 == 3) p.heads.emplace_back(lacuna::tri_shape{h, 5, 3 * h});
  }
  return p;
}

/// List `h` of the mixed index against the index that its kind builds alone.
bool list_equals(lacuna::sparse_index const& index, pattern_problem const& p, int h, mixed::kind const& kind) {
  return std::visit(
      [&](auto const& pattern) {
        auto const alone = test::build_index(host, pattern, p);
        int const list = lacuna::list_head(h, p.shape.query_heads, alone.index.heads);
        bool equal = true;
        for (index_t b = 0; b < p.shape.batch; ++b) {
          equal &= index.rules[index.head_at(b, h)].window == alone.index.rules[alone.index.head_at(b, list)].window;
          for (index_t tile = 0; tile < index.tiles; ++tile) {
            auto const read = test::keys_of(index, p.sequence(b), b, h, tile);
            equal &= read.sound && read.keys == test::keys_of(alone.index, p.sequence(b), b, list, tile).keys;
          }
        }
        return equal;
      },
      kind);
}

TEST_CASE("every head has the list that its kind builds alone, with its own amounts") {
  pattern_problem p{.shape = {2, 150, 200, 8, 2, 8, 8}, .query_lengths = {150, 77}, .key_lengths = {190, 100}};
  p.fill(1);
  mixed const pattern = heads_of_every_kind(8);
  auto const held = test::build_index(host, pattern, p);
  CHECK(held.index.heads == 8);
  for (int h = 0; h < 8; ++h) CHECK_MESSAGE(list_equals(held.index, p, h, pattern.heads[h]), "head ", h);
}

TEST_CASE("more heads of a kind than one launch takes") {
  pattern_problem p{.shape = {1, 70, 70, 150, 5, 8, 8}};
  p.fill(2);
  mixed const pattern = heads_of_every_kind(150);
  auto const held = test::build_index(host, pattern, p);
  for (int h = 0; h < 150; h += 7) CHECK_MESSAGE(list_equals(held.index, p, h, pattern.heads[h]), "head ", h);
}

TEST_CASE("one kind for all heads on teams of threads") {
  pattern_problem p{.shape = {1, 70, 70, 4, 2, 8, 8}};
  p.fill(3);
  mixed const pattern = heads_of_every_kind(4);
  auto const held = test::build_index(test::threaded_executor{3}, pattern, p);
  for (int h = 0; h < 4; ++h) CHECK_MESSAGE(list_equals(held.index, p, h, pattern.heads[h]), "head ", h);
}

TEST_CASE("what does not fit is refused with the head's number") {
  auto const message = [](mixed const& p) -> std::string {
    try {
      p.check({1, 100, 100, 2, 1, 8, 8});
    } catch (lacuna::invalid_argument const& e) {
      return e.what();
    }
    return "";
  };
  CHECK(message({{lacuna::a_shape{}, lacuna::block_sparse{}}}).empty());
  CHECK(message({{lacuna::a_shape{}}}) == "per_head has 1 heads; expected query_heads 2");
  CHECK(message({{lacuna::a_shape{}, lacuna::a_shape{4, 0}}}) == "head 1: window is 0; expected at least 1: a query reads itself");
  CHECK(message({{lacuna::a_shape{}, lacuna::vertical_slash{.tile = 32}}}) ==
        "head 1 has tiles of 32 queries, head 0 of 64; expected the same for all heads");
}

TEST_CASE("granularity is what divides the spans of all kinds") {
  CHECK(lacuna::pattern_traits<mixed>::granularity == 1);
  CHECK(lacuna::pattern_traits<lacuna::per_head<lacuna::block_sparse>>::granularity == 64);
}

}  // namespace
