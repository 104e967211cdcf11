#include "kernels/host/isas.hpp"
#include "support/attend_problem.hpp"

#include <lacuna/kernels/host/host_attend.hpp>

#include <doctest/doctest.h>

namespace {

using lacuna::index_t;

template <class T>
test::attend_result run(test::attend_problem<T> const& problem, lacuna::host_isa isa = lacuna::best_host_isa(), int threads = 2) {
  lacuna::host_executor const exec{threads};
  test::place<lacuna::host_executor> at{exec};
  auto const args = problem.put(at);
  lacuna::host_attend(exec, args, problem.put_parts(at), isa).or_throw();
  return problem.read(at, args);
}

/// Long enough for tiles to be joined and for blocks of keys to fill up.
std::vector<std::pair<std::string, test::attend_recipe>> long_recipes() {
  std::vector<std::pair<std::string, test::attend_recipe>> all;
  for (auto const kind : {test::lists::dense, test::lists::window, test::lists::mixed, test::lists::members})
    for (int const tile_rows : {8, 16, 64})
      for (int const list_heads : {1, 2, 6}) {
        test::attend_recipe recipe{.shape = {1, 531, 600, 6, 2, 16, 24}, .lists = kind, .tile_rows = tile_rows, .list_heads = list_heads};
        recipe.causal = tile_rows != 16;
        all.emplace_back("kind " + std::to_string(static_cast<int>(kind)) + ", tiles of " + std::to_string(tile_rows) + ", lists " +
                             std::to_string(list_heads),
                         recipe);
      }
  all.emplace_back("tiles of 200", test::attend_recipe{.shape = {1, 450, 450, 9, 3, 8, 8}, .tile_rows = 200, .list_heads = 3});
  all.emplace_back("tiles of more rows than a task holds",
                   test::attend_recipe{.shape = {2, 300, 310, 12, 2, 8, 8}, .tile_rows = 128, .list_heads = 1, .key_lengths = {310, 33}});
  return all;
}

TEST_CASE_TEMPLATE("host_attend equals plain loops on sequences of many tiles", T, float, lacuna::bfloat16) {
  for (auto const& [name, recipe] : long_recipes()) {
    test::attend_problem<T> const problem{recipe};
    auto const expected = problem.oracle();
    for (auto const isa : test::isas())
      CHECK_MESSAGE(test::excess<T>(run(problem, isa), expected) <= 1, name << " on " << lacuna::host_isa_name(isa));
  }
}

TEST_CASE("host_attend gives the same bits on any number of threads") {
  for (auto const& [name, recipe] : long_recipes()) {
    test::attend_problem<float> const problem{recipe};
    auto const once = run(problem, lacuna::best_host_isa(), 1);
    CHECK_MESSAGE(run(problem, lacuna::best_host_isa(), 3) == once, name);
  }
  test::attend_recipe const decode{.shape = {2, 1, 700, 12, 6, 16, 16}, .list_heads = 1, .splits = 8, .split_keys = 100};
  test::attend_problem<float> const problem{decode};
  for (int const threads : {1, 2, 7}) CHECK(run(problem, lacuna::best_host_isa(), threads) == run(problem, lacuna::best_host_isa(), 4));
}

TEST_CASE("host_attend gives the same bits whatever else is in the batch") {
  for (int const queries : {1, 130}) {
    test::attend_recipe together{.shape = {3, queries, 200, 4, 2, 16, 16}, .splits = 4, .split_keys = 32, .key_lengths = {50, 200, 0}};
    test::attend_problem<float> const all{together};
    auto const joined = run(all);
    for (int const b : {0, 1, 2}) {
      test::attend_recipe alone = together;
      alone.shape.batch = 1, alone.key_lengths = {together.key_lengths[b]};
      test::attend_problem<float> one{alone};
      auto whole = all;
      auto const part = [&](auto const& from, auto& to) { to.assign(from.begin() + b * to.size(), from.begin() + (b + 1) * to.size()); };
      part(whole.q(), one.q()), part(whole.k(), one.k()), part(whole.v(), one.v());
      auto const single = run(one);
      CHECK(std::equal(single.out.begin(), single.out.end(), joined.out.begin() + b * single.out.size()));
      CHECK(std::equal(single.lse.begin(), single.lse.end(), joined.lse.begin() + b * single.lse.size()));
    }
  }
}

/// Causal dense attention with a NaN or an infinity in the value of one key: rows that see it get it, the others equal a clean run.
TEST_CASE("a value that is not finite reaches exactly the rows that see its key") {
  for (index_t const queries : {4, 100})
    for (float const bad : {std::numeric_limits<float>::quiet_NaN(), lacuna::infinity}) {
      test::attend_recipe const recipe{.shape = {1, queries, 100, 1, 1, 16, 16}};
      test::attend_problem<float> problem{recipe};
      for (index_t const key : {97, 98}) {
        auto spoilt = problem;
        spoilt.v()[key * 16 + 3] = bad;
        for (auto const isa : test::isas()) {
          auto const clean = run(problem, isa), got = run(spoilt, isa);
          for (index_t i = 0; i < queries; ++i)
            for (int d = 0; d < 16; ++d) {
              float const x = got.out[i * 16 + d], y = clean.out[i * 16 + d];
              bool const sees = 100 - queries + i >= key && d == 3;
              CHECK((sees ? !std::isfinite(x) : std::abs(x - y) < 1e-5f));
            }
        }
      }
    }
}

/// One key whose logit is far from anything: the output is its value exactly, in the LSE the logit itself.
TEST_CASE("extreme logits and scales lose nothing") {
  for (float const sign : {-1.0f, 1.0f})
    for (index_t const queries : {1, 20}) {
      test::attend_recipe const recipe{.shape = {1, queries, 1, 1, 1, 64, 8}, .causal = false};
      test::attend_problem<float> problem{recipe};
      std::fill(problem.q().begin(), problem.q().end(), 32.0f), std::fill(problem.k().begin(), problem.k().end(), 32.0f * sign);
      lacuna::host_executor const exec{1};
      test::place<lacuna::host_executor> at{exec};
      auto args = problem.put(at);
      for (float const scale : {1.0f, -1.0f, 0.0f, 1e-30f}) {
        args.logits.scale = scale;
        lacuna::host_attend(exec, args).or_throw();
        auto const got = problem.read(at, args);
        for (index_t i = 0; i < queries; ++i) {
          CHECK(got.lse[i] == doctest::Approx(65536.0 * sign * scale).epsilon(1e-6));
          for (int d = 0; d < 8; ++d) CHECK(got.out[i * 8 + d] == problem.v()[d]);
        }
      }
    }
}

}  // namespace
