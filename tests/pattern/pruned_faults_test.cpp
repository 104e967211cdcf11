// Faults that users of other kernels reported, and those of the paper's public implementation, as inputs for pruned lists.
#include <lacuna/exec/workspace.hpp>
#include <lacuna/pattern/infinite_hip.hpp>
#include <lacuna/storage/paged.hpp>

#include <doctest/doctest.h>

#include <numeric>

#include "support/place.hpp"
#include "support/pruned_oracle.hpp"

namespace {

using namespace lacuna;
using test::pattern_problem;

host_executor const host{2};
test::threaded_executor const portable{1};
auto const small = test::pruned_by(stage_list{chunk_scan<16>{.keep = 64, .query_block = 16}, chunk_scan<4>{.keep = 32, .query_block = 16}},
                                   {.sinks = 8, .window = 32});

template <class Exec, class Pattern>
std::vector<std::int32_t> list_of(Exec const& exec, Pattern const& pattern, pattern_problem const& p, index_t b = 0, int list = 0,
                                  index_t tile = 0) {
  auto const keys = test::keys_of(test::build_index(exec, pattern, p).index, p.sequence(b), b, list, tile);
  CHECK(keys.sound);
  return keys.keys;
}

std::vector<std::int32_t> range(std::int32_t begin, std::int32_t end) {
  std::vector<std::int32_t> all(end - begin);
  std::iota(all.begin(), all.end(), begin);
  return all;
}

TEST_CASE("short, empty and ordinary sequences of one batch each get what they would get alone") {
  pattern_problem p{.shape = {3, 7, 300, 2, 1, 8, 8}, .query_lengths = {5, 0, 7}, .key_lengths = {5, 0, 280}};
  p.fill(1);
  CHECK(list_of(host, small, p, 0) == range(0, 5));
  CHECK(list_of(host, small, p, 1).empty());
  pattern_problem alone{.shape = {1, 7, 280, 2, 1, 8, 8}};
  alone.q.assign(p.q.begin() + 2 * 7 * 16, p.q.begin() + 3 * 7 * 16),
      alone.k.assign(p.k.begin() + 2 * 300 * 8, p.k.begin() + 2 * 300 * 8 + 280 * 8);
  CHECK(list_of(host, small, p, 2) == list_of(host, small, alone));
}

TEST_CASE("of equal scores the lower chunks are kept, zeros of both signs being equal, on all of 50 runs") {
  pattern_problem p{.shape = {1, 1, 1100, 1, 1, 8, 8}};
  p.fill(2);
  std::mt19937 engine{3};
  for (index_t t = 0; t < 1100; ++t)
    for (int d = 0; d < 8; ++d) p.k[t * 8 + d] = engine() % 2 ? 0.0f : -0.0f;
  auto const one = test::pruned_by(stage_list{chunk_scan<4, every_token>{.keep = 256}}, {.sinks = 8, .window = 32});
  auto right = range(0, 8 + 256);
  for (auto const t : range(1100 - 33, 1100)) right.push_back(t);
  for (int run = 0; run < 50; ++run) CHECK(list_of(host, one, p) == right);
  CHECK(list_of(portable, one, p) == right);
}

TEST_CASE("more candidates than any buffer holds are all ranked") {
  pattern_problem p{.shape = {1, 1, 41'000, 1, 1, 8, 8}};
  p.fill(4);
  auto const tokens = test::pruned_by(stage_list{chunk_scan<1, every_token>{.keep = 30'000}}, {.sinks = 0, .window = 64});
  std::vector<std::pair<double, index_t>> ranked;
  for (index_t t = 0; t < 41'000 - 65; ++t) ranked.emplace_back(-p.logit(0, 0, 0, t), t);
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::int32_t> right = range(41'000 - 65, 41'000);
  for (int i = 0; i < 30'000; ++i) right.push_back(static_cast<std::int32_t>(ranked[i].second));
  std::sort(right.begin(), right.end());
  auto const read = list_of(host, tokens, p);
  std::vector<std::int32_t> both;
  std::set_intersection(read.begin(), read.end(), right.begin(), right.end(), std::back_inserter(both));
  CHECK(read.size() == right.size());
  CHECK(both.size() >= right.size() - 1);  // the last one may be a near tie
}

TEST_CASE("lists do not depend on the configured maximum context") {
  pattern_problem p{.shape = {1, 20, 250, 2, 1, 8, 8}};
  p.fill(5);
  auto larger = p;
  larger.shape.keys = 4000, larger.key_lengths = {250}, larger.query_lengths = {20};
  larger.k.resize(4001 * 8, std::numeric_limits<float>::quiet_NaN());
  for (index_t tile = 0; tile < 2; ++tile) CHECK(list_of(host, small, p, 0, 0, tile) == list_of(host, small, larger, 0, 0, tile));
}

TEST_CASE("lists of a KV head do not depend on the other heads: tensor parallelism changes nothing") {
  pattern_problem p{.shape = {1, 20, 250, 6, 2, 8, 8}};
  p.fill(6);
  pattern_problem half{.shape = {1, 20, 250, 3, 1, 8, 8}};
  half.fill(7);
  for (index_t i = 0; i < 20; ++i) std::copy_n(p.q.begin() + (i * 6 + 3) * 8, 24, half.q.begin() + i * 24);
  for (index_t t = 0; t < 250; ++t) std::copy_n(p.k.begin() + (t * 2 + 1) * 8, 8, half.k.begin() + t * 8);
  for (index_t tile = 0; tile < 2; ++tile) CHECK(list_of(host, small, p, 0, 1, tile) == list_of(host, small, half, 0, 0, tile));
}

TEST_CASE("a prompt read in chunks of whole blocks has the lists of a prompt read at once") {
  pattern_problem p{.shape = {1, 320, 320, 2, 1, 8, 8}};
  p.fill(8);
  auto const whole = test::build_index(host, small, p);
  for (index_t const chunk : {64, 160}) {
    for (index_t first = 0; first < 320; first += chunk) {
      pattern_problem part{.shape = {1, chunk, first + chunk, 2, 1, 8, 8}};
      part.q.assign(p.q.begin() + first * 16, p.q.begin() + (first + chunk) * 16),
          part.k.assign(p.k.begin(), p.k.begin() + (first + chunk) * 8);
      auto const held = test::build_index(host, small, part);
      for (index_t tile = 0; tile < chunk / 16; ++tile)
        CHECK(test::keys_of(held.index, part.sequence(0), 0, 0, tile).keys ==
              test::keys_of(whole.index, p.sequence(0), 0, 0, first / 16 + tile).keys);
    }
  }
}

TEST_CASE("pruning reads keys through any storage: pages give the lists of contiguous keys") {
  pattern_problem p{.shape = {1, 20, 250, 4, 2, 8, 8}};
  p.fill(9);
  std::vector<float> pool(32 * 16 * 2 * 8, std::numeric_limits<float>::quiet_NaN());
  std::vector<std::int32_t> table(16);
  for (int page = 0; page < 16; ++page) {
    table[page] = (page * 7 + 3) % 32;
    for (index_t t = page * 16; t < std::min(page * 16 + 16, 250); ++t)
      std::copy_n(p.k.begin() + t * 16, 16, pool.begin() + (table[page] * 16 + t % 16) * 16);
  }
  tensor_view<float const, 4> const pages{pool.data(), 32, 16, 2, 8};
  auto const in = p.inputs();
  build_inputs<float, paged_kv<float>> const paged{in.shape, in.lengths, in.q, {pages, pages, {table.data(), 1, 16}}, in.logits};
  auto const three = test::pruned_by(stage_list{block_mean<16>{.keep = 96}, page_bound<8>{.keep = 64}, chunk_scan<4>{.keep = 32}},
                                     {.sinks = 8, .window = 32});
  test::held_index held{test::layout_of(three, p)};
  workspace<host_executor> const scratch{host, pattern_traits<std::remove_const_t<decltype(three)>>::workspace_bytes(three, p.shape)};
  build_all(three, host, paged, scratch.data(), held.index).or_throw();
  auto const right = test::build_index(host, three, p);
  for (int list = 0; list < 2; ++list)
    CHECK(test::keys_of(held.index, p.sequence(0), 0, list, 0).keys == test::keys_of(right.index, p.sequence(0), 0, list, 0).keys);
}

TEST_CASE("the softmax scale reaches the choosers") {
  pattern_problem p{.shape = {1, 1, 400, 1, 1, 8, 8}};
  p.fill(10);
  auto const some =
      test::pruned_by(stage_list{chunk_scan<4, every_token, top_mass>{.keep = 320, .chooser = {0.5f}}}, {.sinks = 8, .window = 32});
  std::size_t before = 0;
  for (float const scale : {1.0f, 0.3f, 0.1f, 0.0f}) {
    p.logits.scale = scale;
    auto const size = list_of(host, some, p).size();
    CHECK(size > before);
    before = size;
  }
}

TEST_CASE("a planted key among a million is kept by the exact rule and by three stages when its neighbours resemble it") {
  index_t const keys = 1 << 20, at = 777'777;
  pattern_problem p{.shape = {1, 1, keys, 2, 1, 16, 8}};
  p.fill(11);
  for (index_t t = at / 256 * 256; t < (at / 256 + 1) * 256; ++t)
    for (int d = 0; d < 16; ++d) p.k[t * 16 + d] += 8.0f / (1 + std::abs(t - at) / 16) * p.q[16 + d];
  for (auto const& read :
       {list_of(host, infinite_hip_3k(), p), list_of(host, test::pruned_by(stage_list{chunk_scan<8>{.keep = 2048}}), p)}) {
    CHECK(read.size() < 6000);
    CHECK(std::binary_search(read.begin(), read.end(), static_cast<std::int32_t>(at)));
  }
}

}  // namespace
