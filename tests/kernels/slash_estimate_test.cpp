#include <doctest/doctest.h>

#include "support/place.hpp"
#include "support/slash_oracle.hpp"

namespace {

using lacuna::index_t;
using test::pattern_problem;

struct amounts {
  int estimate_rows = 64;
};
struct two_heads {
  int count = 2;
  std::int16_t list[2] = {0, 2};  // query heads
  amounts of_list[2] = {{64}, {9}};
  amounts const& of(int i) const { return of_list[i]; }
};

/// Sums from the portable bodies, everything else NaN.
struct portable_sums {
  std::vector<float> columns, distances;
  lacuna::slash_sums sums;

  template <class Exec>
  portable_sums(Exec const& exec, pattern_problem const& p, two_heads const& heads) {
    index_t const lists = p.shape.batch * heads.count;
    float const nan = std::numeric_limits<float>::quiet_NaN();
    sums.keys = p.shape.keys;
    columns.assign(lists * sums.keys, nan), distances.assign(lists * sums.distance_stride(), nan);
    sums.columns = columns.data(), sums.distances = distances.data();
    lacuna::slash_parts parts;
    parts.chunks = lacuna::ceil_div<index_t>(p.shape.keys, parts.chunk);
    std::vector<lacuna::softmax_state> states(lists * parts.chunks * sums.most_rows);
    std::vector<float> lse(lists * sums.most_rows, nan), by_chunk(lists * parts.chunks * parts.chunk_distances, nan);
    parts.states = states.data(), parts.lse = lse.data(), parts.distances = by_chunk.data();
    using args = lacuna::slash_estimate<decltype(p.inputs()), two_heads>;
    args const e{p.inputs(), heads, p.causal, sums, parts};
    lacuna::launch_in_order(exec, lacuna::slash_chunk_states<args>{e}, lacuna::slash_row_lse<args>{e}, lacuna::slash_chunk_sums<args>{e},
                            lacuna::slash_join_distances<args>{e})
        .or_throw();
  }
};

/// Largest error of the sums of all lists, relative to the mass of a row, 1. NaN counts as infinite.
double worst_error(pattern_problem const& p, two_heads const& heads, lacuna::slash_sums const& sums) {
  double worst = 0;
  auto const raise = [&](float got, double right) {
    double const e = std::abs(got - right);
    worst = e <= worst ? worst : std::isnan(e) ? INFINITY : e;
  };
  for (index_t b = 0; b < p.shape.batch; ++b)
    for (int i = 0; i < heads.count; ++i) {
      auto const mass = test::mass_of(p, b, heads.list[i], heads.of(i).estimate_rows);
      if (mass.rows == 0) continue;
      for (std::size_t j = 0; j < mass.columns.size(); ++j) raise(sums.columns_of(b * heads.count + i)[j], mass.columns[j]);
      for (std::size_t d = 0; d < mass.distances.size(); ++d) raise(sums.distances_of(b * heads.count + i)[d], mass.distances[d]);
    }
  return worst;
}

std::vector<pattern_problem> problems() {
  std::vector<pattern_problem> all{
      {.shape = {1, 600, 600, 3, 1, 16, 16}, .logits = {.scale = 0.25f}},
      {.shape = {1, 600, 600, 3, 1, 16, 16}, .causal = false, .logits = {.scale = 0.25f}},
      {.shape = {1, 64, 513, 4, 2, 8, 8}},
      {.shape = {1, 1, 1, 3, 3, 8, 8}},
      {.shape = {1, 3, 255, 3, 1, 8, 8}},
      {.shape = {2, 256, 256, 3, 1, 8, 8}, .query_lengths = {10, 256}, .key_lengths = {30, 256}},
      {.shape = {3, 300, 300, 3, 1, 8, 8}, .query_lengths = {300, 0, 5}, .key_lengths = {300, 7, 100}, .packed = true},
      {.shape = {1, 50, 50, 3, 1, 8, 8}, .query_lengths = {50}, .key_lengths = {12}},
  };
  for (unsigned i = 0; i < all.size(); ++i) all[i].fill(i);
  return all;
}

TEST_CASE("sums by column and distance equal those in double") {
  for (auto const& p : problems())
    for (int const rows : {64, 128}) {
      two_heads heads;
      heads.of_list[0].estimate_rows = rows;
      CHECK(worst_error(p, heads, portable_sums{lacuna::host_executor{2}, p, heads}.sums) < 2e-7 * rows);
    }
}

TEST_CASE("sums from teams of threads are those of one, bit by bit") {
  for (auto const& p : problems()) {
    portable_sums const one{lacuna::host_executor{1}, p, {}}, many{test::threaded_executor{5}, p, {}};
    CHECK(std::equal(one.columns.begin(), one.columns.end(), many.columns.begin(),
                     [](float x, float y) { return lacuna::bit_cast<std::uint32_t>(x) == lacuna::bit_cast<std::uint32_t>(y); }));
    CHECK(std::equal(one.distances.begin(), one.distances.end(), many.distances.begin(),
                     [](float x, float y) { return lacuna::bit_cast<std::uint32_t>(x) == lacuna::bit_cast<std::uint32_t>(y); }));
  }
}

TEST_CASE("logits far from 0 give the softmax of the definition: nothing overflows, nothing is rounded to 16 bits") {
  pattern_problem p{.shape = {1, 400, 400, 3, 1, 64, 64}, .logits = {.scale = 0.125f}, .spread = 6};
  p.fill(20);
  CHECK(worst_error(p, {}, portable_sums{lacuna::host_executor{2}, p, {}}.sums) < 1e-3);  // logits near 1000 carry errors of 1e-5 each
}

TEST_CASE("a cap on logits is part of the estimate") {
  pattern_problem p{.shape = {1, 100, 100, 3, 1, 16, 16}, .logits = {.scale = 1, .soft_cap = 2}};
  p.fill(21);
  portable_sums const capped{lacuna::host_executor{1}, p, {}};
  double sum = 0, last = 0;
  for (index_t j = 0; j < 100; ++j) {
    double const logit = 2 * std::tanh(p.logit(0, 99, 0, j) / 2);
    sum += std::exp(logit);
    if (j == 0) last = std::exp(logit);
  }
  CHECK(capped.sums.distances_of(0)[99 + 63] == doctest::Approx(last / sum).epsilon(1e-5));  // distance 99: one query only
}

}  // namespace
