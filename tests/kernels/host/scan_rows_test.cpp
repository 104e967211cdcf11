#include <lacuna/kernels/host/scan_rows.hpp>
#include <lacuna/pruning/chunk_scan.hpp>
#include <lacuna/rope/rope_frequencies.hpp>

#include <doctest/doctest.h>

#include <string>

#include "isas.hpp"
#include "support/pattern_problem.hpp"

namespace {

using namespace lacuna;

/// Scores of host_scan_rows against scan_queries, which adds up one dimension after the other.
template <class Rule, class T>
double worst_error(std::mt19937& engine, host_isa isa, scan_rope rope, int key_dim, int queries, int pool, int heads) {
  test::pattern_problem p{.shape = {1, queries, 400, heads, 1, key_dim, key_dim}};
  p.fill(static_cast<unsigned>(engine()));
  std::vector<T> const q(p.q.begin(), p.q.end()), k(p.k.begin(), p.k.end());
  auto const in = p.inputs(q.data(), k.data(), {});
  scan_block const block{0, 0, queries, pool, 30, p.sequence(0)};
  int const dim = summary_planes<Rule> * key_dim;
  std::vector<float> other(index_t{400} * dim);  // summaries: any numbers
  std::normal_distribution<float> normal;
  for (auto& x : other) x = normal(engine);

  std::vector<float> plain(heads * scan_queries<Rule>::floats(key_dim, queries));
  auto const head_rows = [&](int h) {
    return scan_queries<Rule>{rope, block, key_dim, plain.data() + h * scan_queries<Rule>::floats(key_dim, queries)};
  };
  serial_team team{nullptr};
  for (int h = 0; h < heads; ++h) head_rows(h).prepare(team, in, h);

  detail::carver size{nullptr};
  host_scan_rows<Rule>{rope, key_dim, queries, heads, isa, size};
  std::vector<float> memory(size.bytes() / 4 + 64);
  detail::carver carve{reinterpret_cast<std::byte*>(memory.data()) + (256 - reinterpret_cast<std::uintptr_t>(memory.data()) % 256) % 256};
  host_scan_rows<Rule> rows{rope, key_dim, queries, heads, isa, carve};
  rows.prepare(in, block, 0, heads);
  using row_type = std::conditional_t<KeySummary<Rule>, float, T>;
  row_type const* key[rows.most_keys];
  scanned_key at[rows.most_keys];
  float best[rows.most_keys];
  double worst = 0;
  for (int const count : {1, 5, 63, 64}) {
    for (int j = 0; j < count; ++j) {
      at[j] = {static_cast<index_t>(engine() % 400), static_cast<index_t>(engine() % 30), 30, engine() % 2 ? branch::left : branch::right};
      if constexpr (KeySummary<Rule>)
        key[j] = other.data() + at[j].position * dim;
      else
        key[j] = in.kv.key(p.sequence(0), 0, 0, at[j].position);
    }
    rows.best(key, at, count, best);
    for (int j = 0; j < count; ++j) {
      float right = -infinity;
      for (int h = 0; h < heads; ++h) right = std::max(right, head_rows(h).best(key[j], at[j]));
      double const error = std::abs(double(best[j]) - right);
      worst = std::isnan(error) ? 1e9 : std::max(worst, error);
    }
  }
  return worst;
}

TEST_CASE("scores from vector registers equal those added up one by one, for all styles and sizes") {
  std::mt19937 engine{1};
  for (host_isa const isa : test::isas())
    for (int const key_dim : {8, 24, 64, 80, 128})
      for (auto const pairing : {rope_pairing::halves, rope_pairing::neighbours}) {
        host_rope_table const table{rope_frequencies(1e4, key_dim == 80 ? 40 : key_dim), 600, pairing};
        for (int style = 0; style < 5; ++style)
          for (auto const& size : {std::pair{1, 1}, {1, 7}, {16, 1}, {17, 1}, {64, 3}, {65, 1}}) {
            scan_rope const rope{.style = scan_style(style), .table = table.view(), .distance = 40, .trained = 90, .near = 380};
            CAPTURE(host_isa_name(isa));
            CAPTURE(key_dim);
            CAPTURE(style);
            int const queries = size.first, heads = size.second;
            CAPTURE(queries);
            double const bound = 1e-5 + 4 * 1.2e-7 * 8 * std::sqrt(2 * key_dim);  // logits stay below 8 deviations
            CHECK(worst_error<every_token, float>(engine, isa, rope, key_dim, queries, 1, heads) < bound);
            CHECK(worst_error<halving, bfloat16>(engine, isa, rope, key_dim, queries, 4, heads) < bound);
            if (style != int(scan_style::dynamic_extend))
              CHECK(worst_error<key_mean, float16>(engine, isa, rope, key_dim, queries, 2, heads) < bound);
            if (!rope.turns_keys()) CHECK(worst_error<min_max_bound, float>(engine, isa, rope, key_dim, queries, 1, heads) < bound);
          }
      }
}

}  // namespace
