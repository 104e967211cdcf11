#pragma once
#include <lacuna/lacuna.hpp>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace test {

using lacuna::index_t;

/// Random q, k, v of a padded batch, an output full of NaN, and the answer in plain loops and double.
template <class T>
struct problem {
  lacuna::attention_shape shape;
  std::vector<T> q, k, v, out;
  std::vector<float> lse;

  problem(lacuna::attention_shape s, unsigned seed) : shape{s} {
    std::mt19937 engine{seed};
    fill(q, s.batch * s.queries * s.query_heads * s.key_dim, engine);
    fill(k, s.batch * s.keys * s.kv_heads * s.key_dim, engine);
    fill(v, s.batch * s.keys * s.kv_heads * s.value_dim, engine);
    poison();
  }

  void poison() {
    out.assign(shape.batch * shape.queries * shape.query_heads * shape.value_dim, T{std::numeric_limits<float>::quiet_NaN()});
    lse.assign(shape.batch * shape.queries * shape.query_heads, std::numeric_limits<float>::quiet_NaN());
  }

  lacuna::attention_io<T> io() {
    return {.q = {q.data(), shape.batch, shape.queries, shape.query_heads, shape.key_dim},
            .out = {out.data(), shape.batch, shape.queries, shape.query_heads, shape.value_dim},
            .lse = {lse.data(), shape.batch, shape.queries, shape.query_heads}};
  }
  lacuna::contiguous_kv<T> kv() const {
    return {{k.data(), shape.batch, shape.keys, shape.kv_heads, shape.key_dim},
            {v.data(), shape.batch, shape.keys, shape.kv_heads, shape.value_dim}};
  }

 private:
  static void fill(std::vector<T>& rows, index_t count, std::mt19937& engine) {
    std::normal_distribution<float> normal;
    rows.resize(count);
    for (auto& x : rows) x = T{normal(engine)};
  }
};

/// Amounts of the oracle. `visible(position, key)` includes causality.
struct oracle_options {
  double scale = 1, soft_cap = 0;
  float const* sink_logits = nullptr;
  index_t queries = -1, keys = -1;  // of the sequence; -1: the shape's
};

/// Largest error of `p.out` against the definition, relative to the row's norm, and of `p.lse`, over one sequence of the batch.
/// Infinite if a row that must be empty is not exactly 0 and -inf, or anything is NaN.
struct errors {
  double out = 0, lse = 0;
};

template <class T>
errors compare(problem<T> const& p, index_t b, std::function<bool(index_t, index_t)> const& visible, oracle_options const& o) {
  auto const& s = p.shape;
  index_t const queries = o.queries < 0 ? s.queries : o.queries, keys = o.keys < 0 ? s.keys : o.keys;
  errors worst;
  auto const raise = [](double& most, double e) { most = e <= most ? most : std::isnan(e) ? std::numeric_limits<double>::infinity() : e; };
  for (int h = 0; h < s.query_heads; ++h)
    for (index_t i = 0; i < queries; ++i) {
      std::vector<double> logit(keys, -std::numeric_limits<double>::infinity()), acc(s.value_dim, 0.0);
      double peak = o.sink_logits ? o.sink_logits[h] : -std::numeric_limits<double>::infinity();
      T const* const q = &p.q[((b * s.queries + i) * s.query_heads + h) * s.key_dim];
      for (index_t j = 0; j < keys; ++j) {
        if (!visible(keys - queries + i, j)) continue;
        T const* const k = &p.k[((b * s.keys + j) * s.kv_heads + s.kv_head(h)) * s.key_dim];
        double dot = 0;
        for (int d = 0; d < s.key_dim; ++d) dot += double(float(q[d])) * float(k[d]);
        logit[j] = dot * o.scale;
        if (o.soft_cap > 0) logit[j] = o.soft_cap * std::tanh(logit[j] / o.soft_cap);
        peak = std::max(peak, logit[j]);
      }
      double sum = o.sink_logits ? std::exp(o.sink_logits[h] - peak) : 0, norm = 0, error = 0;
      for (index_t j = 0; j < keys; ++j) {
        if (logit[j] == -std::numeric_limits<double>::infinity()) continue;
        double const w = std::exp(logit[j] - peak);
        sum += w;
        for (int d = 0; d < s.value_dim; ++d) acc[d] += w * float(p.v[((b * s.keys + j) * s.kv_heads + s.kv_head(h)) * s.value_dim + d]);
      }
      index_t const row = (b * s.queries + i) * s.query_heads + h;
      for (int d = 0; d < s.value_dim; ++d) {
        double const right = sum > 0 ? acc[d] / sum : 0, e = float(p.out[row * s.value_dim + d]) - right;
        norm += right * right, error += e * e;
      }
      raise(worst.out, norm > 0 ? std::sqrt(error / norm) : error > 0 ? std::numeric_limits<double>::infinity() : error);
      double const lse = peak + std::log(sum);
      raise(worst.lse, sum > 0 ? std::abs(p.lse[row] - lse) : p.lse[row] == -std::numeric_limits<float>::infinity() ? 0 : 1e9);
    }
  return worst;
}

/// Error model: fp32 1e-5 + 4 eps * largest logit (about 8 for unit normals of these sizes); 16-bit operands 1e-2 of the row norm.
template <class T>
constexpr double tolerance = sizeof(T) == 4 ? 2e-5 : 1e-2;

}  // namespace test
