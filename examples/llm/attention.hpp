#pragma once

#include <cstdint>

#include <lacuna/core/tensor_view.hpp>
#include <lacuna/exec/host_executor.hpp>

#include "pattern_spec.hpp"

namespace llm {

/// Queries, keys and values of one layer; queries are the last positions of the keys.
struct attention_tensors {
  lacuna::tensor_view<float const, 3> q;  // [query, query head, dim]
  lacuna::tensor_view<float const, 3> k;  // [key, KV head, dim]
  lacuna::tensor_view<float const, 3> v;  // [key, KV head, dim]
  lacuna::tensor_view<float, 3> out;      // [query, query head, dim], written
};

/// (query, key) pairs of one or more calls, over all query heads.
struct pair_count {
  std::int64_t visited = 0;
  std::int64_t causal = 0;

  double share() const { return causal == 0 ? 1.0 : static_cast<double>(visited) / static_cast<double>(causal); }
  pair_count& operator+=(pair_count const& other) {
    visited += other.visited;
    causal += other.causal;
    return *this;
  }
};

/// The model's only door to attention: causal, scaled by 1 / sqrt(head size), fp32.
class attention {
 public:
  explicit attention(lacuna::host_executor exec) : exec_(exec) {}

  /// Each query reads the keys that the pattern keeps. Returns the pairs visited.
  pair_count prefill(pattern_spec const& pattern, attention_tensors const& tensors);

  /// Each query reads all keys before it.
  void decode(attention_tensors const& tensors);

 private:
  lacuna::host_executor exec_;
};

}  // namespace llm
