#include <lacuna/attention/merge.hpp>

#include <doctest/doctest.h>
#include <lacuna/exec/threaded_team.hpp>
#include <support/problem.hpp>

namespace {

struct config : lacuna::attention_defaults<float, 16> {};

/// Attention of p's queries over keys [first, last).
void attend(test::problem<float>& p, lacuna::index_t first, lacuna::index_t last) {
  lacuna::host_executor const exec{2};
  lacuna::sparse_attention<config> const attention{{}, {.causal = false}};
  auto kv = p.kv();
  kv.keys.data += first * 16, kv.values.data += first * 16;
  kv.keys.extent[1] = kv.values.extent[1] = last - first;
  auto const plan = attention.plan_prefill(exec, p.shape);
  lacuna::workspace const scratch{exec, plan.workspace_bytes()};
  attention.prefill(exec, plan, scratch, p.io(), kv).or_throw();
}

lacuna::partial_attention<float> view(test::problem<float>& p) { return {p.io().out, p.io().lse}; }

}  // namespace

TEST_CASE("parts over disjoint keys merge to the whole, empty parts included") {
  lacuna::host_executor const exec{2};
  for (lacuna::index_t const cut : {0, 1, 20, 33}) {
    test::problem<float> whole{{1, 5, 33, 2, 1, 16, 16}, 3}, a = whole, b = whole;
    attend(a, 0, cut), attend(b, cut, 33);
    lacuna::merge(exec, view(a), view(b), view(whole)).or_throw();
    auto const e = compare(whole, 0, [](auto, auto) { return true; }, {.scale = 0.25});
    CHECK(e.out <= 2e-5);
    CHECK(e.lse <= 2e-5);
  }
}

TEST_CASE("a part may be merged into itself by any team") {
  test::problem<float> a{{1, 5, 33, 2, 1, 16, 16}, 3}, b = a;
  attend(a, 0, 7), attend(b, 7, 33);
  lacuna::merge_outputs<float> const body{view(a).out, view(a).lse, view(b).out, view(b).lse, view(a).out, view(a).lse};
  lacuna::run_threaded(body.blocks(), 3, body);
  CHECK(compare(a, 0, [](auto, auto) { return true; }, {.scale = 0.25}).out <= 2e-5);
}

TEST_CASE("two empty parts are empty; the side without weight is not read") {
  lacuna::host_executor const exec{1};
  test::problem<float> a{{1, 1, 1, 2, 1, 16, 16}, 1}, b = a, to = a;
  a.lse = {-lacuna::infinity, 0}, b.lse = {-lacuna::infinity, -lacuna::infinity};
  std::fill(a.out.begin() + 16, a.out.end(), 2.f);
  lacuna::merge(exec, view(a), view(b), view(to)).or_throw();
  CHECK(to.out[0] == 0);
  CHECK(to.lse[0] == -lacuna::infinity);
  CHECK(to.out[16] == 2);
}

TEST_CASE("parts of different shapes are refused by name") {
  lacuna::host_executor const exec{1};
  test::problem<float> a{{1, 5, 3, 2, 1, 16, 16}, 1}, b{{1, 4, 3, 2, 1, 16, 16}, 1};
  CHECK(lacuna::merge(exec, view(a), view(b), view(a)).message() == "b has 4 tokens; expected 5");
}

TEST_CASE("results that overlap a part in another place are refused, those in its very place are not") {
  lacuna::host_executor const exec{1};
  test::problem<float> a{{1, 5, 3, 2, 1, 16, 16}, 1}, b = a;
  auto shifted = [](lacuna::partial_attention<float> v, lacuna::index_t tokens) {
    v.out.extent[1] = v.lse.extent[1] = 3;
    v.out.data += tokens * v.out.stride[1], v.lse.data += tokens * v.lse.stride[1];
    return v;
  };
  CHECK(lacuna::merge(exec, shifted(view(a), 0), shifted(view(b), 0), shifted(view(a), 1)).message().find("to overlaps a") == 0);
  CHECK(lacuna::merge(exec, shifted(view(a), 0), shifted(view(b), 0), shifted(view(b), 2)).message().find("to overlaps b") == 0);
  a.lse.assign(a.lse.size(), 0), b.lse.assign(b.lse.size(), 0);
  CHECK(lacuna::merge(exec, shifted(view(a), 1), shifted(view(b), 1), shifted(view(a), 1)).ok());
}
