#include <lacuna/lacuna.hpp>

#include <doctest/doctest.h>
#include <support/problem.hpp>

namespace {

constexpr std::int32_t most = 0x7fffffff;

template <class Pattern>
struct config : lacuna::attention_defaults<float, 16> {
  using pattern = Pattern;
};

/// The largest amounts cover every key, so the output is dense attention's.
template <class Pattern>
void equals_dense(Pattern const& pattern) {
  lacuna::host_executor const exec{2};
  for (lacuna::attention_shape const s :
       {lacuna::attention_shape{1, 1, 1, 2, 1, 16, 16}, {2, 130, 200, 6, 2, 16, 16}, {1, 5, 300, 7, 1, 16, 16}, {1, 0, 8, 1, 1, 16, 16}}) {
    CAPTURE(s.queries);
    test::problem<float> p{s, 31};
    lacuna::sparse_attention<config<Pattern>> const attention{pattern};
    auto const plan = attention.plan_prefill(exec, s);
    lacuna::workspace const scratch{exec, plan.workspace_bytes()};
    attention.prefill(exec, plan, scratch, p.io(), p.kv()).or_throw();
    for (lacuna::index_t b = 0; b < s.batch; ++b)
      CHECK(compare(p, b, [](auto i, auto j) { return j <= i; }, {.scale = 0.25}).out <= test::tolerance<float>);
  }
}

}  // namespace

TEST_CASE("the largest windows and sinks equal dense") {
  equals_dense(lacuna::a_shape{most, most});
  equals_dense(lacuna::a_shape{0, most});
  equals_dense(lacuna::sliding_window{most});
  equals_dense(lacuna::tri_shape{0, 1, most});
}

TEST_CASE("the largest budgets equal dense, forced entries alone too") {
  equals_dense(lacuna::vertical_slash{.verticals = most, .slashes = most});
  equals_dense(lacuna::vertical_slash{.verticals = 0, .slashes = 0, .first = most, .nearest = most});
  equals_dense(lacuna::block_sparse{.keep_blocks = most});
}
