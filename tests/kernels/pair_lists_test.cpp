#include "support/attend_problem.hpp"

#include <doctest/doctest.h>
#include <lacuna/exec/threaded_team.hpp>
#include <lacuna/kernels/pair_lists.hpp>

namespace {

using lacuna::index_t;

/// Keys that query row `i` reads, by members where the row has them.
std::set<index_t> keys_of(lacuna::sparse_index const& x, lacuna::sequence const& s, index_t b, int h, index_t i, int member_tokens) {
  auto const row = x.row(s, b, h, i / x.tile_rows);
  std::set<index_t> keys;
  for (int e = 0; e < row.span_count(); ++e)
    if (row.members(e) >> (i % x.tile_rows / member_tokens) & 1)
      for (index_t k = row.span_at(e).begin; k < row.span_at(e).end; ++k) REQUIRE(keys.insert(k).second);
  return keys;
}

}  // namespace

TEST_CASE("a joined list gives each half what its own list gave, ascending and without overlap") {
  for (auto const kind : {test::lists::dense, test::lists::window})
    for (index_t const n : {1, 63, 64, 65, 128, 129, 300}) {
      test::attend_problem<float> const problem{{.shape = {2, n, n + 37, 3, 3, 8, 8}, .lists = kind}};
      test::place<lacuna::host_executor> at{lacuna::host_executor{1}};
      auto const args = problem.put(at);
      auto layout = problem.layout();
      layout.capacity = {.spans = lacuna::pair_lists::joined_capacity(layout.capacity), .members = true};
      layout.tile_rows *= 2;
      std::vector<std::byte> memory(lacuna::index_bytes(layout), std::byte{0x5a});
      auto const joined = lacuna::make_index(layout, at.put(memory));
      lacuna::pair_lists const body{args.shape, args.lengths, args.index, joined};
      lacuna::run_threaded(body.blocks(), 3, body);
      for (index_t b = 0; b < 2; ++b) {
        auto const s = lacuna::sequence_at(args.lengths, args.shape, b);
        for (int h = 0; h < 3; ++h)
          for (index_t i = 0; i < n; ++i) CHECK(keys_of(joined, s, b, h, i, 64) == keys_of(args.index, s, b, h, i, 1));
      }
    }
}
