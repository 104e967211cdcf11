#pragma once

#include <cstdint>
#include <vector>

#include <lacuna/core/tensor_view.hpp>

#include "float_buffer.hpp"
#include "model_config.hpp"

namespace llm {

/// Keys and values of every layer for up to `capacity` tokens, head-major, so that a head's keys are one run of memory.
class kv_cache {
 public:
  kv_cache(model_config const& config, std::int64_t capacity) : heads_(config.kv_heads), head_size_(config.head_size), capacity_(capacity) {
    auto const size = static_cast<std::size_t>(config.kv_size()) * static_cast<std::size_t>(capacity);
    for (int layer = 0; layer < config.layers; ++layer) {
      keys_.emplace_back(size);
      values_.emplace_back(size);
    }
  }

  std::int64_t capacity() const { return capacity_; }
  std::int64_t size() const { return size_; }
  void resize(std::int64_t tokens) { size_ = tokens; }

  /// The first `tokens` of a layer. [1, token, KV head, dim]
  lacuna::tensor_view<float, 4> keys(int layer, std::int64_t tokens) { return view(keys_[static_cast<std::size_t>(layer)], tokens); }
  lacuna::tensor_view<float, 4> values(int layer, std::int64_t tokens) { return view(values_[static_cast<std::size_t>(layer)], tokens); }

 private:
  lacuna::tensor_view<float, 4> view(float_buffer& buffer, std::int64_t tokens) const {
    return {buffer.data(), {1, tokens, heads_, head_size_}, {heads_ * capacity_ * head_size_, head_size_, capacity_ * head_size_, 1}};
  }

  std::int64_t heads_;
  std::int64_t head_size_;
  std::int64_t capacity_;
  std::int64_t size_ = 0;
  std::vector<float_buffer> keys_;  // [layers], each [KV head, capacity, dim]
  std::vector<float_buffer> values_;
};

}  // namespace llm
