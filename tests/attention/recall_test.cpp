#include <lacuna/attention/recall.hpp>
#include <lacuna/attention/sparse_attention.hpp>
#include <lacuna/pattern/a_shape.hpp>
#include <lacuna/pattern/block_sparse.hpp>
#include <lacuna/pattern/vertical_slash.hpp>

#include <doctest/doctest.h>

#include "support/pattern_problem.hpp"
#include "support/place.hpp"

namespace {

using namespace lacuna;

/// Captured mass of a row by its definition, in double.
double captured(test::pattern_problem const& p, sparse_index const& index, index_t b, int h, index_t i) {
  auto const s = p.sequence(b);
  int const list = list_head(h, p.shape.query_heads, index.heads);
  auto const keys = test::keys_of(index, s, b, list, i / index.tile_rows).keys;
  head_rule const rule = index.rules[index.head_at(b, list)];
  double all = 0, listed = 0;
  for (index_t t = 0; t < s.keys; ++t) {
    if (p.causal && t > s.position(i)) continue;
    double const weight = std::exp(p.logit(b, i, h, t));
    all += weight;
    if (std::binary_search(keys.begin(), keys.end(), t) && rule.visible(s.position(i), t)) listed += weight;
  }
  return all > 0 ? listed / all : 1;
}

template <class Exec, class Pattern>
double worst_error(Exec const& exec, test::pattern_problem const& p, Pattern const& pattern) {
  auto const held = test::build_index(host_executor{1}, pattern, p);
  std::vector<float> mass(p.shape.batch * p.shape.queries * p.shape.query_heads, -1);
  tensor_view<float, 3> const view{mass.data(), p.shape.batch, p.shape.queries, p.shape.query_heads};
  recall(exec, p.inputs(), held.index, {.count = p.shape.queries}, view).or_throw();
  double worst = 0;
  for (index_t b = 0; b < p.shape.batch; ++b)
    for (index_t i = 0; i < p.shape.queries; ++i)
      for (int h = 0; h < p.shape.query_heads; ++h) {
        double const right = i < p.sequence(b).queries ? captured(p, held.index, b, h, i) : -1;
        double const error = std::abs(view(b, i, h) - right);
        worst = std::isnan(error) ? 1e9 : std::max(worst, error);
      }
  return worst;
}

TEST_CASE("captured mass equals the definition for spans, columns and rules") {
  std::mt19937 engine{1};
  for (int round = 0; round < 40; ++round) {
    auto const p = test::random_problem(engine, 120);
    CHECK(worst_error(host_executor{2}, p, a_shape{3, 17}) < 1e-5);
    CHECK(worst_error(host_executor{2}, p, block_sparse_of<16>{2}) < 1e-5);
    CHECK(worst_error(test::threaded_executor{3}, p, vertical_slash{.verticals = 8, .slashes = 9, .first = 2, .nearest = 3, .tile = 16}) <
          1e-5);
  }
}

TEST_CASE("a dense index captures all, one that misses the key which holds the mass nothing") {
  test::pattern_problem p{.shape = {1, 1, 300, 1, 1, 8, 8}};
  p.fill(2);
  for (int d = 0; d < 8; ++d) p.k[100 * 8 + d] = 20 * p.q[d];
  float mass = -1;
  tensor_view<float, 3> const view{&mass, 1, 1, 1};
  recall(host_executor{1}, p.inputs(), test::build_index(host_executor{1}, dense{}, p).index, {.count = 1}, view).or_throw();
  CHECK(mass == doctest::Approx(1));
  recall(host_executor{1}, p.inputs(), test::build_index(host_executor{1}, a_shape{4, 64}, p).index, {.count = 1}, view).or_throw();
  CHECK(mass < 1e-3);
}

struct config : attention_defaults<float, 8> {
  using pattern = a_shape;
};

TEST_CASE("a meter averages the sampled rows of the runs it saw") {
  host_executor const host{2};
  test::pattern_problem p{.shape = {2, 50, 90, 2, 1, 8, 8}, .query_lengths = {50, 20}, .key_lengths = {90, 60}, .logits = {.scale = 1}};
  sparse_attention<config> const attention{{2, 9}, {.scale = 1}};
  auto const plan = attention.plan_prefill(host, p.shape);
  workspace<host_executor> const scratch{host, plan.workspace_bytes()};
  recall_meter<host_executor> const meter{host, p.shape, {.count = 3, .step = 16}};
  CHECK(meter.mean() == 1);
  double sum = 0, count = 0;
  for (unsigned seed = 1; seed < 4; ++seed) {
    p.fill(seed);
    auto const in = p.inputs();
    std::vector<float> out(2 * 50 * 2 * 8);
    attention_io<float> const io{in.q, {out.data(), 2, 50, 2, 8}, {}, in.lengths};
    attention.build(host, plan, scratch, io, in.kv).or_throw();
    attention.measure(host, plan, scratch, io, in.kv, meter).or_throw();
    for (index_t const i : {17, 33, 49})
      for (int h = 0; h < 2; ++h) sum += captured(p, plan.index(scratch.data()), 0, h, i), ++count;
    for (index_t const i : {3, 19})
      for (int h = 0; h < 2; ++h) sum += captured(p, plan.index(scratch.data()), 1, h, i), ++count;
  }
  CHECK(meter.mean() == doctest::Approx(sum / count).epsilon(1e-5));
  meter.restart().or_throw();
  CHECK(meter.mean() == 1);
}

TEST_CASE("shapes that do not fit are refused with numbers") {
  test::pattern_problem p{.shape = {1, 4, 10, 2, 1, 8, 8}};
  p.fill(3);
  auto const held = test::build_index(host_executor{1}, dense{}, p);
  float mass[8];
  CHECK(recall(host_executor{1}, p.inputs(), held.index, {.count = 4}, {mass, 1, 2, 2}).message() ==
        "mass is [1, 2, 2]; expected [1, 4, 2]");
  CHECK(recall(host_executor{1}, p.inputs(), held.index, {.count = 4, .step = 0}, {mass, 1, 4, 2}).message() ==
        "rows are 4 at a step of 0; expected at least 0, and 1 to 2^30");
}

}  // namespace
