#include <doctest/doctest.h>

#include <string>

#include "support/block_oracle.hpp"
#include "support/place.hpp"

namespace {

using lacuna::block_sparse;
using lacuna::block_sparse_of;
using lacuna::index_t;
using test::against_definition;
using test::pattern_problem;

lacuna::host_executor const host{2};

TEST_CASE("blocks equal brute force on random shapes") {
  std::mt19937 engine{1};
  test::verdict all;
  for (int round = 0; round < 300; ++round) {
    auto const p = test::random_problem(engine, 200);
    auto one = against_definition(host, p, block_sparse_of<16>{static_cast<int>(1 + engine() % 6)});
    one += against_definition(host, p, block_sparse{static_cast<int>(1 + engine() % 3)});
    CHECK_MESSAGE(one.equal, "round ", round);
    all += one;
  }
  CHECK(all.compared > 0.98 * all.seen);
}

TEST_CASE("blocks are the same from teams of threads that meet only at barriers") {
  std::mt19937 engine{2};
  for (int const members : {2, 3}) {
    test::threaded_executor const exec{members};
    for (int round = 0; round < 5; ++round) CHECK(against_definition(exec, test::random_problem(engine, 100), block_sparse_of<16>{3}));
  }
}

TEST_CASE("a tile across two key blocks keeps both, even with room for one") {
  pattern_problem p{.shape = {1, 64, 100, 1, 1, 8, 8}};  // positions 36 .. 99
  p.fill(3);
  auto const read = test::keys_of(test::build_index(host, block_sparse{1}, p).index, p.sequence(0), 0, 0, 0);
  CHECK(read.sound);
  CHECK(read.keys.size() == 100);
}

TEST_CASE("blocks after the query's are never read, whatever their score") {
  pattern_problem p{.shape = {1, 256, 256, 1, 1, 8, 8}};
  p.fill(4);
  for (index_t j = 192; j < 256; ++j)
    for (int d = 0; d < 8; ++d) p.k[j * 8 + d] = 1e3f * p.q[d];
  auto const held = test::build_index(host, block_sparse{2}, p);
  for (index_t tile = 0; tile < 3; ++tile) CHECK(test::keys_of(held.index, p.sequence(0), 0, 0, tile).keys.back() < (tile + 1) * 64);
}

TEST_CASE("more blocks than there are read everything") {
  for (bool const causal : {true, false}) {
    pattern_problem p{.shape = {1, 130, 300, 2, 1, 8, 8}, .causal = causal};
    p.fill(5);
    auto const held = test::build_index(host, block_sparse{1 << 30}, p);
    for (index_t tile = 0; tile < 3; ++tile)
      CHECK(static_cast<index_t>(test::keys_of(held.index, p.sequence(0), 0, 1, tile).keys.size()) ==
            held.index.limit_of(p.sequence(0), tile));
  }
}

TEST_CASE("a partial last block averages its real rows: what lies behind it does not count") {
  pattern_problem p{.shape = {1, 200, 200, 1, 1, 8, 8}, .causal = false, .query_lengths = {150}, .key_lengths = {150}};
  p.fill(6);
  auto other = p;
  for (index_t j = 150 * 8; j < 200 * 8; ++j) other.k[j] = other.q[j] = std::numeric_limits<float>::quiet_NaN();
  auto const a = test::build_index(host, block_sparse{2}, p), b = test::build_index(host, block_sparse{2}, other);
  for (index_t tile = 0; tile < 3; ++tile)
    CHECK(test::keys_of(a.index, p.sequence(0), 0, 0, tile).keys == test::keys_of(b.index, p.sequence(0), 0, 0, tile).keys);
}

TEST_CASE("spans are whole blocks and neighbours make one span") {
  pattern_problem p{.shape = {1, 512, 512, 1, 1, 8, 8}};
  p.fill(7);
  auto const held = test::build_index(host, block_sparse{3}, p);
  for (index_t tile = 0; tile < 8; ++tile) {
    auto const row = held.index.row(p.sequence(0), 0, 0, tile);
    for (int e = 0; e < row.own_count; ++e) {
      CHECK(row.own[e].begin % 64 == 0);
      CHECK(row.own[e].end % 64 == 0);
      if (e > 0) CHECK(row.own[e - 1].end < row.own[e].begin);
    }
  }
}

TEST_CASE("a sequence with more queries than keys leaves its first rows empty") {
  pattern_problem p{.shape = {1, 64, 64, 1, 1, 8, 8}, .query_lengths = {64}, .key_lengths = {20}};
  p.fill(8);
  auto const held = test::build_index(host, block_sparse_of<16>{1}, p);
  auto const size = [&](index_t tile) { return test::keys_of(held.index, p.sequence(0), 0, 0, tile).keys.size(); };
  CHECK(size(0) == 0);
  CHECK(size(1) == 0);
  CHECK(size(2) == 4);
  CHECK(size(3) == 20);
}

TEST_CASE("amounts and shapes that do not fit are refused by name") {
  auto const message = [](block_sparse const& p, lacuna::attention_shape const& s) -> std::string {
    try {
      p.check(s);
    } catch (lacuna::invalid_argument const& e) {
      return e.what();
    }
    return "";
  };
  CHECK(message({}, {1, 10, 10, 1, 1, 8, 8}).empty());
  CHECK(message({0}, {1, 10, 10, 1, 1, 8, 8}) == "keep_blocks is 0; expected at least 1: a tile reads its own block");
  CHECK(message({}, {1, 11, 10, 1, 1, 8, 8}) == "queries is 11, keys is 10; block_sparse expects at most as many queries as keys");
}

TEST_CASE("a million tokens need no matrix of blocks") {
  lacuna::attention_shape const shape{1, 1 << 20, 1 << 20, 32, 8, 128, 128};
  CHECK(block_sparse{}.workspace_bytes(shape) < std::size_t{150} << 20);
}

}  // namespace
