#include <lacuna/pattern/infinite_hip.hpp>
#include <lacuna/rope/rope_frequencies.hpp>

#include <doctest/doctest.h>

#include "support/pruned_oracle.hpp"

namespace {

using namespace lacuna;
using test::pattern_problem;

host_executor const host{2};
std::vector<double> const radians = rope_frequencies(5e5, 16);
host_rope_table const table{radians, 8192};

pattern_problem long_problem(index_t queries, index_t keys, unsigned seed) {
  pattern_problem p{.shape = {1, queries, keys, 4, 2, 16, 16}};
  p.fill(seed);
  return p;
}

TEST_CASE("parity masks equal a plain loop over the reference's rules, at the paper's sizes") {
  test::verdict all;
  for (int const layer : {0, 9})
    for (index_t const queries : {1, 64})
      for (unsigned seed = 1; seed < (queries == 1 ? 9u : 3u); ++seed) {
        auto const p = long_problem(queries, 45'000, seed);
        auto const amounts = infinite_hip_3k_parity({.layer = layer, .table = table.view()});
        auto const v = test::against_definition(host, p, amounts, radians);
        CHECK(v.equal);
        all += v;
      }
  CHECK(all.compared >= 10);
}

TEST_CASE("the presets equal the definition at their sizes") {
  test::verdict all;
  for (int const layer : {2, 3})
    for (unsigned seed = 1; seed < 4; ++seed) {
      auto const p = long_problem(1, 45'000, seed);
      for (auto const v :
           {test::against_definition(host, p, infinite_hip_3k({.layer = layer, .table = table.view()}), radians),
            test::against_definition(host, p, infinite_hip_5k({.layer = layer}), radians),
            test::against_definition(host, p, infinite_hip_3k<infinite_hip_exact>({.layer = layer, .table = table.view()}), radians)}) {
        CHECK(v.equal);
        all += v;
      }
    }
  CHECK(all.compared >= 15);
}

TEST_CASE("text of sinks, window and the last budget is read whole") {
  auto const amounts = infinite_hip_3k({.layer = 5, .table = table.view()});
  auto const p = long_problem(1, 256 + 1024 + 2048, 1);
  CHECK(static_cast<index_t>(test::keys_of(test::build_index(host, amounts, p).index, p.sequence(0), 0, 0, 0).keys.size()) == p.shape.keys);
}

TEST_CASE("first layers scan by chunk number and keep more") {
  infinite_hip_layer const early{.layer = 2, .table = table.view()}, late{.layer = 3, .table = table.view()};
  CHECK(infinite_hip_3k(early).rope.style == scan_style::chunk_indexed);
  CHECK(infinite_hip_3k(late).rope.style == scan_style::relative);
  CHECK(infinite_hip_3k(early).stage.get<2>().keep == 4096);
  CHECK(infinite_hip_3k(late).stage.get<2>().keep == 2048);
  CHECK(infinite_hip_5k(late).stage.get<2>().keep == 4096);
  CHECK_FALSE(infinite_hip_3k({.layer = 2}).rope.turns());
  attention_shape const s{1, 1, 1 << 20, 4, 2, 16, 16};
  CHECK(infinite_hip_3k(late).list_keys(s) == 256 + 2048 + 1024 + 64 + 64);
}

}  // namespace
