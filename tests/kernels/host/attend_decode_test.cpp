#include "kernels/host/isas.hpp"
#include "support/attend_problem.hpp"

#include <lacuna/kernels/host/host_attend.hpp>

#include <doctest/doctest.h>

namespace {

template <class T>
test::attend_result run_decode(test::attend_problem<T> const& problem, lacuna::host_isa isa, int threads = 2) {
  lacuna::host_executor const exec{threads};
  test::place<lacuna::host_executor> at{exec};
  auto const args = problem.put(at);
  lacuna::host_attend(exec, args, problem.put_parts(at), isa).or_throw();
  return problem.read(at, args);
}

/// Recipes whose tiles have few rows.
std::vector<std::pair<std::string, test::attend_recipe>> decode_recipes() {
  std::vector<std::pair<std::string, test::attend_recipe>> all;
  for (auto [name, recipe] : test::attend_recipes())
    for (int const tile_rows : {1, 2, 16})
      for (int const splits : {1, 5}) {
        if (recipe.splits > 1 && splits > 1) continue;
        recipe.tile_rows = tile_rows;
        if (splits > 1) recipe.splits = splits, recipe.split_keys = 32;
        auto const& s = recipe.shape;
        int const group = recipe.list_heads && recipe.list_heads <= s.kv_heads ? s.group() : 1;
        if (std::min<lacuna::index_t>(tile_rows, s.queries) * group > 16) continue;
        all.emplace_back(name + ", tiles of " + std::to_string(tile_rows) + ", splits " + std::to_string(recipe.splits), recipe);
      }
  return all;
}

TEST_CASE_TEMPLATE("attend_decode equals plain loops in double on every instruction set", T, float, lacuna::bfloat16, lacuna::float16) {
  for (auto const& [name, recipe] : decode_recipes()) {
    test::attend_problem<T> const problem{recipe};
    auto const expected = problem.oracle();
    for (auto const isa : test::isas())
      CHECK_MESSAGE(test::excess<T>(run_decode(problem, isa), expected) <= 1, name << " on " << lacuna::host_isa_name(isa));
  }
}

}  // namespace
