#include "support/attend_problem.hpp"

#include <lacuna/kernels/host/last_query_scores.hpp>

#include <doctest/doctest.h>

namespace {

using lacuna::index_t;

struct scores_case {
  index_t queries, keys;
  int rows, dim;
  bool causal = true;
  float soft_cap = 0;
};

/// Probabilities of the last queries in double, summed by key and by distance.
template <class T>
void expect(scores_case const& c, std::vector<T> const& q, std::vector<T> const& k, int heads, std::vector<double>& columns,
            std::vector<double>& distances) {
  columns.assign(c.keys, 0), distances.assign(c.keys + c.rows - 1, 0);
  lacuna::logit_transform const logits{1 / std::sqrt(float(c.dim)), c.soft_cap};
  for (int r = 0; r < c.rows; ++r) {
    index_t const position = c.keys - c.rows + r, query = c.queries - c.rows + r;
    std::vector<double> p(c.keys, 0);
    double peak = -std::numeric_limits<double>::infinity(), sum = 0;
    index_t const seen = c.causal ? position + 1 : c.keys;
    for (index_t j = 0; j < seen; ++j) {
      for (int d = 0; d < c.dim; ++d)
        p[j] += double(lacuna::to_float(q[(query * heads + 1) * c.dim + d])) * lacuna::to_float(k[(j * heads + 1) * c.dim + d]);
      p[j] *= logits.scale;
      if (c.soft_cap > 0) p[j] = c.soft_cap * std::tanh(p[j] / c.soft_cap);
      peak = std::max(peak, p[j]);
    }
    for (index_t j = 0; j < seen; ++j) sum += std::exp(p[j] - peak);
    for (index_t j = 0; j < seen; ++j)
      columns[j] += std::exp(p[j] - peak) / sum, distances[position - j + c.rows - 1] += std::exp(p[j] - peak) / sum;
  }
}

TEST_CASE_TEMPLATE("slash sums equal plain loops in double", T, float, lacuna::bfloat16) {
  constexpr int heads = 2;
  for (auto const& c : std::vector<scores_case>{{1, 1, 1, 8},
                                                {64, 64, 64, 16},
                                                {65, 63, 63, 24},
                                                {100, 300, 64, 64},
                                                {200, 1000, 128, 128},
                                                {70, 500, 70, 64, false},
                                                {3, 97, 3, 72},
                                                {64, 96, 64, 8, true, 2},
                                                {9, 200, 0, 8}}) {
    auto const q = test::normals<T>(c.queries * heads * c.dim, 1), k = test::normals<T>(c.keys * heads * c.dim, 2);
    lacuna::attention_shape const shape{1, c.queries, c.keys, heads, heads, c.dim, c.dim};
    using kv_type = lacuna::contiguous_kv<T>;
    kv_type const kv{{k.data(), 1, c.keys, heads, c.dim}, {}};
    lacuna::tensor_view<T const, 4> const view{q.data(), 1, c.queries, heads, c.dim};
    lacuna::last_queries<T, kv_type> const last{{0, c.queries, 0, c.keys},
                                                0,
                                                1,
                                                c.rows,
                                                view.row(0, c.queries - c.rows, 1),
                                                view.stride[1],
                                                kv,
                                                shape,
                                                {1 / std::sqrt(float(c.dim)), c.soft_cap},
                                                c.causal};
    std::vector<double> columns, distances;
    expect(c, q, k, heads, columns, distances);
    for (int i = 0; i <= static_cast<int>(lacuna::best_host_isa()); ++i) {
      std::vector<float> by_key(c.keys, NAN), by_distance(c.keys + c.rows - 1, NAN);
      std::vector<std::byte> scratch(lacuna::host_slash_scratch_bytes<T, kv_type>(c.dim) + 64);
      auto* const aligned = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(scratch.data()) + 63) / 64 * 64);
      lacuna::host_slash_sums(last, static_cast<lacuna::host_isa>(i), by_key.data(), by_distance.data(), aligned);
      CAPTURE(i);
      CAPTURE(c.keys);
      CHECK(test::excess(by_key, std::vector<float>(columns.begin(), columns.end()), 1e-5f, 1e-6f) <= 1);
      CHECK(test::excess(by_distance, std::vector<float>(distances.begin(), distances.end()), 1e-5f, 1e-6f) <= 1);
    }
  }
}

}  // namespace
