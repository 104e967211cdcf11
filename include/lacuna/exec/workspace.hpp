#pragma once
#include <lacuna/exec/executor.hpp>

#include <utility>

namespace lacuna {

/// Owns memory of an executor. Runs use it and never allocate; one workspace serves one run at a time.
template <class Exec>
  requires Executor<Exec>
class workspace {
 public:
  workspace(Exec exec, std::size_t bytes) : exec_{std::move(exec)}, bytes_{bytes}, data_{bytes ? exec_.allocate(bytes) : nullptr} {}
  ~workspace() {
    if (data_) exec_.deallocate(data_, bytes_);
  }
  workspace(workspace&& other) noexcept : exec_{other.exec_}, bytes_{std::exchange(other.bytes_, 0)}, data_{std::exchange(other.data_, nullptr)} {}
  workspace& operator=(workspace other) noexcept {
    std::swap(exec_, other.exec_), std::swap(bytes_, other.bytes_), std::swap(data_, other.data_);
    return *this;
  }

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t bytes() const { return bytes_; }

 private:
  Exec exec_;
  std::size_t bytes_;
  void* data_;
};

}  // namespace lacuna
