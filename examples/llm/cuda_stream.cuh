#pragma once

#include <cstdint>
#include <vector>

#include <lacuna/cuda.cuh>

namespace llm {

/// Throws lacuna::cuda_error saying what failed.
inline void check_cuda(cudaError_t code, char const* doing) { lacuna::detail::cuda_status(code, doing).or_throw(); }

/// A stream of its own.
class cuda_stream {
 public:
  cuda_stream() { check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream"); }
  ~cuda_stream() { cudaStreamDestroy(stream_); }
  cuda_stream(cuda_stream const&) = delete;
  cuda_stream& operator=(cuda_stream const&) = delete;

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Keeps a loop that only launches from running away: the GPU always has one more step to do, and no more.
class pace_keeper {
 public:
  explicit pace_keeper(cudaStream_t stream) : stream_(stream) {
    for (auto& event : events_) check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
  }
  ~pace_keeper() {
    for (auto const event : events_) cudaEventDestroy(event);
  }
  pace_keeper(pace_keeper const&) = delete;
  pace_keeper& operator=(pace_keeper const&) = delete;

  /// Marks the end of a step and waits for the step before it.
  void mark_and_wait_for_last() {
    check_cuda(cudaEventRecord(events_[next_], stream_), "recording an event");
    next_ = 1 - next_;
    check_cuda(cudaEventSynchronize(events_[next_]), "waiting for an event");
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t events_[2] = {};
  int next_ = 0;
};

/// Elements of device memory, once all that the stream holds is done.
template <class T>
std::vector<std::remove_const_t<T>> fetch(lacuna::cuda_executor const& exec, T* from, std::int64_t count) {
  std::vector<std::remove_const_t<T>> values(static_cast<std::size_t>(count));
  exec.copy(values.data(), from, values.size() * sizeof(T)).or_throw();
  exec.synchronize().or_throw();
  return values;
}

}  // namespace llm
