#pragma once

#include <cstdint>
#include <vector>

#include <lacuna/core/tensor_view.hpp>

#include "model_config.hpp"

namespace llm {

/// Keys and values of every layer for up to `capacity` tokens, head-major, so that a head's keys are one run of memory. Buffer owns
/// elements T.
template <class T, class Buffer>
class kv_cache {
 public:
  /// make(size) gives a Buffer of that many elements.
  template <class Make>
  kv_cache(model_config const& config, std::int64_t capacity, Make const& make)
      : heads_(config.kv_heads), head_size_(config.head_size), capacity_(capacity) {
    auto const size = static_cast<std::size_t>(config.kv_size()) * static_cast<std::size_t>(capacity);
    for (int layer = 0; layer < config.layers; ++layer) {
      keys_.push_back(make(size));
      values_.push_back(make(size));
    }
  }

  std::int64_t capacity() const { return capacity_; }

  /// The first `tokens` of a layer. [1, token, KV head, dim]
  lacuna::tensor_view<T, 4> keys(int layer, std::int64_t tokens) { return view(keys_[static_cast<std::size_t>(layer)], tokens); }
  lacuna::tensor_view<T, 4> values(int layer, std::int64_t tokens) { return view(values_[static_cast<std::size_t>(layer)], tokens); }

 private:
  lacuna::tensor_view<T, 4> view(Buffer& buffer, std::int64_t tokens) const {
    return {buffer.data(), {1, tokens, heads_, head_size_}, {heads_ * capacity_ * head_size_, head_size_, capacity_ * head_size_, 1}};
  }

  std::int64_t heads_;
  std::int64_t head_size_;
  std::int64_t capacity_;
  std::vector<Buffer> keys_;  // [layers], each [KV head, capacity, dim]
  std::vector<Buffer> values_;
};

}  // namespace llm
