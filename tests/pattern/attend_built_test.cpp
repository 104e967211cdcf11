// Built patterns through the facade: what they choose is what is attended.
#include <lacuna/lacuna.hpp>
#include <lacuna/pattern/block_sparse.hpp>
#include <lacuna/pattern/per_head.hpp>
#include <lacuna/pattern/vertical_slash.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

namespace {

using lacuna::index_t;

template <class Pattern>
struct config : lacuna::attention_defaults<float, 16> {
  using pattern = Pattern;
};

struct call {
  lacuna::attention_shape shape;
  std::vector<float> q, k, v;

  explicit call(lacuna::attention_shape s) : shape{s} {
    std::mt19937 engine{7};
    std::normal_distribution<float> normal;
    q.resize(s.batch * s.queries * s.query_heads * 16), k.resize(s.batch * s.keys * s.kv_heads * 16), v.resize(k.size());
    for (auto* const data : {&q, &k, &v})
      for (auto& x : *data) x = normal(engine);
  }

  template <class Pattern>
  std::vector<float> run(Pattern const& pattern, lacuna::sequence_lengths const& lengths = {}) const {
    lacuna::host_executor const exec{2};
    lacuna::sparse_attention<config<Pattern>> const attention{pattern};
    auto const plan = attention.plan_prefill(exec, shape);
    lacuna::workspace const scratch{exec, plan.workspace_bytes()};
    index_t const batch = lengths.query_offsets ? 1 : shape.batch;
    index_t const queries = lengths.query_offsets ? shape.batch * shape.queries : shape.queries;
    index_t const keys = lengths.query_offsets ? shape.batch * shape.keys : shape.keys;
    std::vector<float> out(q.size(), std::nanf(""));
    lacuna::attention_io<float> io{.q = {q.data(), batch, queries, shape.query_heads, 16},
                                   .out = {out.data(), batch, queries, shape.query_heads, 16}};
    io.lengths = lengths;
    lacuna::contiguous_kv<float> const kv{{k.data(), batch, keys, shape.kv_heads, 16}, {v.data(), batch, keys, shape.kv_heads, 16}};
    attention.prefill(exec, plan, scratch, io, kv).or_throw();
    return out;
  }
};

double largest_difference(std::vector<float> const& a, std::vector<float> const& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double const d = std::abs(double(a[i]) - b[i]);
    most = d <= most ? most : std::isnan(d) ? INFINITY : d;
  }
  return most;
}

TEST_CASE("budgets that cover a short input attend like dense") {
  using mixed = lacuna::per_head<lacuna::vertical_slash, lacuna::block_sparse>;
  for (auto const& [queries, keys] : {std::pair{1, 1}, std::pair{130, 130}, std::pair{50, 200}}) {
    call const c{{2, queries, keys, 2, 1, 16, 16}};
    auto const dense = c.run(lacuna::dense{});
    CHECK(largest_difference(c.run(lacuna::vertical_slash{}), dense) < 1e-5);
    CHECK(largest_difference(c.run(lacuna::block_sparse{}), dense) < 1e-5);
    CHECK(largest_difference(c.run(mixed{{lacuna::vertical_slash{}, lacuna::block_sparse{}}}), dense) < 1e-5);
  }
}

TEST_CASE("packed sequences attend as the padded ones do: nothing crosses") {
  call const c{{3, 100, 100, 2, 1, 16, 16}};
  std::vector<std::int32_t> const offsets{0, 100, 200, 300};
  lacuna::sequence_lengths const packed{.query_offsets = offsets.data(), .key_offsets = offsets.data()};
  lacuna::vertical_slash const slashes{.verticals = 9, .slashes = 7, .first = 2, .nearest = 2};
  CHECK(largest_difference(c.run(slashes, packed), c.run(slashes)) < 1e-6);
  CHECK(largest_difference(c.run(lacuna::block_sparse{1}, packed), c.run(lacuna::block_sparse{1})) < 1e-6);
  CHECK(largest_difference(c.run(slashes), c.run(lacuna::dense{})) > 1e-2);
}

}  // namespace
