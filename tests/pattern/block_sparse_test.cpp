#include <lacuna/pattern/block_sparse.hpp>

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "support/pattern_problem.hpp"
#include "support/place.hpp"

namespace {

using lacuna::block_sparse;
using lacuna::block_sparse_of;
using lacuna::index_t;
using test::pattern_problem;

lacuna::host_executor const host{2};

struct expected_blocks {
  std::set<index_t> kept;
  double gap = 1;  // least difference between a kept and a dropped logit
};

/// The definition in double: means, scaled product, the tile's own blocks first, then the best.
template <int Block>
expected_blocks blocks_by_definition(pattern_problem const& p, index_t b, int head, index_t tile, index_t keep) {
  auto const in = p.inputs();
  auto const s = p.sequence(b);
  index_t const first = tile * Block, rows = std::clamp<index_t>(s.queries - first, 0, Block);
  expected_blocks e;
  if (rows == 0) return e;
  index_t const begin = s.position(first), last = s.position(first + rows) - 1;
  std::vector<std::pair<double, index_t>> ranked;
  for (index_t c = 0; c * Block < s.keys; ++c) {
    if (p.causal && c * Block > last) continue;
    if (c * Block <= last && (c + 1) * Block > begin) {
      e.kept.insert(c);
      continue;
    }
    index_t const end = std::min<index_t>((c + 1) * Block, s.keys);
    double dot = 0;
    for (int d = 0; d < p.shape.key_dim; ++d) {
      double q = 0, k = 0;
      for (index_t r = 0; r < rows; ++r) q += in.q.row(b, s.first_query + first + r, head)[d];
      for (index_t j = c * Block; j < end; ++j) k += in.kv.key(s, b, p.shape.kv_head(head), j)[d];
      dot += q / double(rows) * (k / double(end - c * Block));
    }
    ranked.emplace_back(dot * p.logits.scale, c);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](auto const& x, auto const& y) { return x.first > y.first; });
  index_t const room = keep - static_cast<index_t>(e.kept.size());
  for (index_t i = 0; i < room && i < static_cast<index_t>(ranked.size()); ++i) e.kept.insert(ranked[i].second);
  if (room > 0 && room < static_cast<index_t>(ranked.size())) e.gap = ranked[room - 1].first - ranked[room].first;
  return e;
}

int tiles_seen = 0, tiles_compared = 0;

template <int Block, class Exec>
bool equals_definition(Exec const& exec, pattern_problem const& p, block_sparse_of<Block> const& amounts) {
  auto const held = test::build_index(exec, amounts, p);
  bool equal = true;
  for (index_t b = 0; b < p.shape.batch; ++b)
    for (int h = 0; h < p.shape.query_heads; ++h)
      for (index_t tile = 0; tile < held.index.tiles; ++tile) {
        auto const right = blocks_by_definition<Block>(p, b, h, tile, amounts.keep_blocks);
        ++tiles_seen;
        if (right.gap < 1e-5) continue;
        ++tiles_compared;
        auto const s = p.sequence(b);
        auto const read = test::keys_of(held.index, s, b, h, tile);
        std::vector<std::int32_t> keys;
        for (index_t const c : right.kept)
          for (index_t j = c * Block; j < std::min((c + 1) * Block, held.index.limit_of(s, tile)); ++j) keys.push_back(static_cast<std::int32_t>(j));
        equal &= read.sound && read.keys == keys;
      }
  return equal;
}

pattern_problem random_problem(std::mt19937& engine, index_t most_keys) {
  auto const pick = [&](index_t low, index_t high) { return low + static_cast<index_t>(engine() % (high - low + 1)); };
  pattern_problem p;
  p.shape = {.batch = pick(1, 2), .keys = pick(1, most_keys), .query_heads = 4, .kv_heads = 2, .key_dim = 16, .value_dim = 8};
  p.shape.queries = pick(0, 1) ? pick(1, p.shape.keys) : p.shape.keys;
  p.causal = pick(0, 3) > 0;
  p.logits.scale = 0.25f;
  if (pick(0, 1)) {
    for (index_t b = 0; b < p.shape.batch; ++b) {
      auto const keys = pick(0, p.shape.keys);
      p.key_lengths.push_back(static_cast<std::int32_t>(keys));
      p.query_lengths.push_back(static_cast<std::int32_t>(pick(0, std::min(keys, p.shape.queries))));
    }
    p.packed = pick(0, 1);
  }
  p.fill(static_cast<unsigned>(engine()));
  return p;
}

TEST_CASE("blocks equal brute force on random shapes") {
  std::mt19937 engine{1};
  for (int round = 0; round < 300; ++round) {
    auto const p = random_problem(engine, 200);
    CHECK_MESSAGE(equals_definition(host, p, block_sparse_of<16>{static_cast<int>(1 + engine() % 6)}), "round ", round);
    CHECK_MESSAGE(equals_definition(host, p, block_sparse{static_cast<int>(1 + engine() % 3)}), "round ", round);
  }
  CHECK(tiles_compared > 0.98 * tiles_seen);
}

TEST_CASE("blocks are the same from teams of threads that meet only at barriers") {
  std::mt19937 engine{2};
  for (int const members : {2, 3}) {
    test::threaded_executor const exec{members};
    for (int round = 0; round < 5; ++round) CHECK(equals_definition(exec, random_problem(engine, 100), block_sparse_of<16>{3}));
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
      CHECK(static_cast<index_t>(test::keys_of(held.index, p.sequence(0), 0, 1, tile).keys.size()) == held.index.limit_of(p.sequence(0), tile));
  }
}

TEST_CASE("a partial last block averages its real rows: what lies behind it does not count") {
  pattern_problem p{.shape = {1, 200, 200, 1, 1, 8, 8}, .causal = false, .query_lengths = {150}, .key_lengths = {150}};
  p.fill(6);
  auto other = p;
  for (index_t j = 150 * 8; j < 200 * 8; ++j) other.k[j] = other.q[j] = std::numeric_limits<float>::quiet_NaN();
  auto const a = test::build_index(host, block_sparse{2}, p), b = test::build_index(host, block_sparse{2}, other);
  for (index_t tile = 0; tile < 3; ++tile) CHECK(test::keys_of(a.index, p.sequence(0), 0, 0, tile).keys == test::keys_of(b.index, p.sequence(0), 0, 0, tile).keys);
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
