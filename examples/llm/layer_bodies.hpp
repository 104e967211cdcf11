#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <lacuna/core/element.hpp>
#include <lacuna/core/tensor_view.hpp>
#include <lacuna/exec/team.hpp>

#include "layer_math.hpp"

namespace llm {

// What a layer does besides products and attention, as bodies for any executor: layer_math.hpp row by row. Block i is row i unless said
// otherwise; rows are dense. The residual stream and the products' results are fp32, what products and attention read is of type T.

inline constexpr int body_team_size = 256;  // most members of a team; scratch is sized for it

struct add_values {
  template <class V>
  LACUNA_HD V operator()(V a, V b) const {
    return a + b;
  }
};

/// Joins a value of every member in an order that depends on the team's size only, and gives all members the result.
template <class Team, class V, class Join>
LACUNA_HD V reduce(Team& team, V value, Join join) {
  V* const held = reinterpret_cast<V*>(team.scratch());
  team.sync();  // an earlier result has been read
  held[team.rank()] = value;
  for (int count = team.size(); count > 1;) {
    int const half = (count + 1) / 2;
    team.sync();
    if (team.rank() + half < count) held[team.rank()] = join(held[team.rank()], held[team.rank() + half]);
    count = half;
  }
  team.sync();
  return held[0];
}

/// Converts elements; block i is elements [i * elements_per_block, ...).
template <class From, class To>
struct convert_elements {
  static constexpr std::int64_t elements_per_block = 8 * body_team_size;
  From const* from;
  To* to;
  std::int64_t count;

  LACUNA_HD std::int64_t blocks() const { return (count + elements_per_block - 1) / elements_per_block; }
  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, std::int64_t block) const {
    std::int64_t const begin = block * elements_per_block;
    std::int64_t const end = lacuna::min(begin + elements_per_block, count);
    for (std::int64_t i = begin + team.rank(); i < end; i += team.size()) to[i] = lacuna::from_float<To>(lacuna::to_float(from[i]));
  }
};

/// out = table[ids], the start of the residual stream.
template <class T>
struct embed_rows {
  std::int32_t const* ids;  // [rows]
  T const* table;           // [vocabulary, width]
  std::int64_t rows;
  int width;
  float* out;  // [rows, width]

  LACUNA_HD std::int64_t blocks() const { return rows; }
  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, std::int64_t row) const {
    T const* const from = table + std::int64_t{ids[row]} * width;
    for (int i = team.rank(); i < width; i += team.size()) out[row * width + i] = lacuna::to_float(from[i]);
  }
};

/// out = x / rms(x) * weight.
template <class T>
struct normalise_rows {
  float const* x;       // [rows, width]
  float const* weight;  // [width]
  float epsilon;        // added to the mean square
  std::int64_t rows;
  int width;
  T* out;  // [rows, width]

  LACUNA_HD std::int64_t blocks() const { return rows; }
  LACUNA_HD std::size_t scratch_bytes() const { return body_team_size * sizeof(float); }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, std::int64_t row) const {
    float const* const from = x + row * width;
    float sum = 0;
    for (int i = team.rank(); i < width; i += team.size()) sum += from[i] * from[i];
    float const mean_square = reduce(team, sum, add_values{}) / static_cast<float>(width);
    float const scale = 1.0F / std::sqrt(mean_square + epsilon);
    for (int i = team.rank(); i < width; i += team.size()) out[row * width + i] = lacuna::from_float<T>(from[i] * scale * weight[i]);
  }
};

/// Adds the bias, turns queries and keys by their position, and puts queries, keys and values where attention reads them.
template <class T>
struct rotate_and_store {
  float const* qkv;      // [rows, query heads + 2 * KV heads, head size]
  float const* bias;     // like a row of qkv; null: none
  float const* cosines;  // [positions, head size / 2]
  float const* sines;
  rope_pairs pairs;
  std::int64_t position;  // of row 0
  std::int64_t rows;
  int query_heads, kv_heads, head_size;
  T* q;                            // [rows, query heads, head size]
  lacuna::tensor_view<T, 4> keys;  // [1, position, KV head, head size]
  lacuna::tensor_view<T, 4> values;

  LACUNA_HD std::int64_t blocks() const { return rows; }
  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, std::int64_t row) const {
    int const half = head_size / 2;
    int const step = pairs == rope_pairs::neighbours ? 2 : 1;
    int const partner = pairs == rope_pairs::neighbours ? 1 : half;
    for (int at = team.rank(); at < (query_heads + 2 * kv_heads) * half; at += team.size()) {
      int const head = at / half, i = at % half;
      int const first = head * head_size + i * step;
      float a = element(row, first), b = element(row, first + partner);
      if (head < query_heads + kv_heads) {
        float const cosine = cosines[(position + row) * half + i], sine = sines[(position + row) * half + i];
        float const turned = a * cosine - b * sine;
        b = a * sine + b * cosine;
        a = turned;
      }
      T* const out = place(row, head) + i * step;
      out[0] = lacuna::from_float<T>(a);
      out[partner] = lacuna::from_float<T>(b);
    }
  }

 private:
  LACUNA_HD float element(std::int64_t row, int i) const {
    float const value = qkv[row * ((query_heads + 2 * kv_heads) * head_size) + i];
    return bias != nullptr ? value + bias[i] : value;
  }

  LACUNA_HD T* place(std::int64_t row, int head) const {
    if (head < query_heads) return q + (row * query_heads + head) * head_size;
    int const kv_head = head - query_heads;
    return kv_head < kv_heads ? keys.row(0, position + row, kv_head) : values.row(0, position + row, kv_head - kv_heads);
  }
};

/// out = silu(gate) * up.
template <class T>
struct gate_rows {
  float const* gate_up;  // [rows, 2, width]
  std::int64_t rows;
  int width;
  T* out;  // [rows, width]

  LACUNA_HD std::int64_t blocks() const { return rows; }
  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, std::int64_t row) const {
    float const* const gate = gate_up + row * 2 * width;
    for (int i = team.rank(); i < width; i += team.size())
      out[row * width + i] = lacuna::from_float<T>(gate[i] / (1.0F + std::exp(-gate[i])) * gate[width + i]);
  }
};

/// What is asked of a row of logits.
struct scored_row {
  std::int32_t next;  // index of the largest; the lower one wins ties
  float loss;         // -ln p of the target
};

/// Reads each row of logits twice and leaves one scored_row of it.
struct score_rows {
  float const* logits;          // [rows, vocabulary]
  std::int32_t const* targets;  // [rows]; null: losses are not asked for
  std::int64_t rows, vocabulary;
  scored_row* out;  // [rows]

  LACUNA_HD std::int64_t blocks() const { return rows; }
  LACUNA_HD std::size_t scratch_bytes() const { return body_team_size * sizeof(candidate); }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, std::int64_t row) const {
    float const* const of = logits + row * vocabulary;
    candidate best{of[0], 0};
    for (std::int64_t i = team.rank(); i < vocabulary; i += team.size()) best = larger{}(best, {of[i], static_cast<std::int32_t>(i)});
    best = reduce(team, best, larger{});
    float sum = 0;
    if (targets != nullptr) {
      for (std::int64_t i = team.rank(); i < vocabulary; i += team.size()) sum += std::exp(of[i] - best.logit);
      sum = reduce(team, sum, add_values{});
    }
    if (team.rank() == 0) out[row] = {best.at, targets != nullptr ? std::log(sum) + (best.logit - of[targets[row]]) : 0.0F};
  }

 private:
  struct candidate {
    float logit;
    std::int32_t at;
  };
  struct larger {
    LACUNA_HD candidate operator()(candidate a, candidate b) const {
      return b.logit > a.logit || (b.logit == a.logit && b.at < a.at) ? b : a;
    }
  };
};

/// Sums of squares of a - reference and of the reference; block i writes partial sum i of `parts`.
template <class T>
struct sum_squares {
  struct sums {
    double difference, reference;
    LACUNA_HD sums operator+(sums other) const { return {difference + other.difference, reference + other.reference}; }
  };
  T const* a;
  T const* reference;
  std::int64_t count;
  std::int64_t parts;
  sums* out;  // [parts]

  LACUNA_HD std::int64_t blocks() const { return parts; }
  LACUNA_HD std::size_t scratch_bytes() const { return body_team_size * sizeof(sums); }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, std::int64_t part) const {
    sums own{};
    for (std::int64_t i = part * team.size() + team.rank(); i < count; i += parts * team.size()) {
      double const expected = static_cast<double>(lacuna::to_float(reference[i]));
      double const difference = static_cast<double>(lacuna::to_float(a[i])) - expected;
      own = own + sums{difference * difference, expected * expected};
    }
    own = reduce(team, own, add_values{});
    if (team.rank() == 0) out[part] = own;
  }
};

}  // namespace llm
