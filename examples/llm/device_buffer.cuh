#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include <lacuna/cuda.cuh>

namespace llm {

/// Uninitialised elements in device memory, allocated and freed in the stream's order.
template <class T>
class device_buffer {
 public:
  device_buffer() = default;
  device_buffer(lacuna::cuda_executor const& exec, std::size_t size) : size_(size) { memory_.emplace(exec, size * sizeof(T)); }

  T* data() const { return memory_ ? reinterpret_cast<T*>(memory_->data()) : nullptr; }
  std::size_t size() const { return size_; }

  /// Makes room for at least `size` elements; contents may be lost.
  void fit(lacuna::cuda_executor const& exec, std::int64_t size) {
    if (size_ >= static_cast<std::size_t>(size)) return;
    *this = {};
    *this = device_buffer(exec, static_cast<std::size_t>(size));
  }

 private:
  std::optional<lacuna::workspace<lacuna::cuda_executor>> memory_;
  std::size_t size_ = 0;
};

}  // namespace llm
