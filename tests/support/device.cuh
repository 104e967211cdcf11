#pragma once
#include "support/place.hpp"

#include <lacuna/cuda.cuh>

namespace test {

inline void check_cuda(cudaError_t code) { lacuna::detail::cuda_status(code, "test").or_throw(); }

/// A stream of its own and the executor on it.
class device_stream {
 public:
  device_stream() { check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~device_stream() { cudaStreamDestroy(stream_); }
  device_stream(device_stream const&) = delete;
  device_stream& operator=(device_stream const&) = delete;

  cudaStream_t get() const { return stream_; }
  lacuna::cuda_executor exec() const { return lacuna::cuda_executor{stream_}; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// What `work` puts on the stream, recorded once and launched any number of times.
class recorded_graph {
 public:
  template <class Work>
  recorded_graph(device_stream const& stream, Work const& work) : stream_{stream.get()} {
    check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    lacuna::status const recorded = work();
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamEndCapture(stream_, &graph));
    recorded.or_throw();
    check_cuda(cudaGraphInstantiate(&graph_, graph, 0));
    check_cuda(cudaGraphDestroy(graph));
  }
  ~recorded_graph() { cudaGraphExecDestroy(graph_); }
  recorded_graph(recorded_graph const&) = delete;
  recorded_graph& operator=(recorded_graph const&) = delete;

  void launch() const { check_cuda(cudaGraphLaunch(graph_, stream_)); }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace test
