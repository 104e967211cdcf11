#include "support/attend_problem.hpp"

#include <doctest/doctest.h>

namespace {

TEST_CASE_TEMPLATE("attend_row equals plain loops in double", T, float, lacuna::bfloat16, lacuna::float16) {
  lacuna::host_executor const exec{2};
  for (auto const& [name, recipe] : test::attend_recipes()) {
    test::attend_problem<T> const problem{recipe};
    CHECK_MESSAGE(test::excess<T>(problem.run(exec), problem.oracle()) <= 1, name);
  }
}

TEST_CASE("attend_row is right on teams of threads that take turns only at barriers") {
  for (int const members : {2, 3}) {
    test::threaded_executor const exec{members};
    for (auto const& [name, recipe] : test::attend_recipes()) {
      if (recipe.shape.batch * recipe.shape.queries * recipe.shape.query_heads > 150) continue;
      test::attend_problem<float> const problem{recipe};
      CHECK_MESSAGE(test::excess<float>(problem.run(exec), problem.oracle()) <= 1, name);
    }
  }
}

TEST_CASE("attend_row gives the same bits whatever else is in the batch") {
  test::attend_recipe together{.shape = {3, 1, 200, 4, 2, 16, 16}, .splits = 4, .split_keys = 32, .key_lengths = {50, 200, 0}};
  test::attend_problem<float> const all{together};
  auto const joined = all.run(lacuna::host_executor{2});
  for (int const b : {0, 1, 2}) {
    test::attend_recipe alone = together;
    alone.shape.batch = 1, alone.key_lengths = {together.key_lengths[b]};
    test::attend_problem<float> one{alone};
    auto whole = all;
    auto const part = [&](auto const& from, auto& to) { to.assign(from.begin() + b * to.size(), from.begin() + (b + 1) * to.size()); };
    part(whole.q(), one.q()), part(whole.k(), one.k()), part(whole.v(), one.v());
    auto const single = one.run(lacuna::host_executor{1});
    CHECK(std::equal(single.out.begin(), single.out.end(), joined.out.begin() + b * single.out.size()));
    CHECK(std::equal(single.lse.begin(), single.lse.end(), joined.lse.begin() + b * single.lse.size()));
  }
}

}  // namespace
