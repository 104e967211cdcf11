#pragma once
#include <lacuna/exec/executor.hpp>

#include <cuda_runtime.h>

#include <string>

namespace lacuna {

namespace detail {

/// What a CUDA call returned, as a status. Forgets the thread's last error, which would otherwise surface in somebody else's check.
template <class... Pieces>
status cuda_status(cudaError_t code, Pieces const&... doing) {
  if (code == cudaSuccess) return {};
  static_cast<void>(cudaGetLastError());
  return {errc::cuda, concat(doing..., ": ", cudaGetErrorName(code), ", ", cudaGetErrorString(code))};
}

/// Makes a device current for a scope.
class current_device {
 public:
  explicit current_device(int device) {
    cudaGetDevice(&before_);
    if (before_ != device) cudaSetDevice(device), changed_ = true;
  }
  ~current_device() {
    if (changed_) cudaSetDevice(before_);
  }
  current_device(current_device const&) = delete;
  current_device& operator=(current_device const&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace detail

inline namespace LACUNA_ARCH_NAMESPACE {

/// One thread block of a GPU.
class block_team {
 public:
  __device__ explicit block_team(std::byte* scratch) : scratch_{scratch} {}
  __device__ int rank() const { return static_cast<int>(threadIdx.x); }
  __device__ int size() const { return static_cast<int>(blockDim.x); }
  __device__ void sync() const { __syncthreads(); }
  __device__ std::byte* scratch() const { return scratch_; }

 private:
  std::byte* scratch_;
};

static_assert(Team<block_team>);

/// Most threads of a block that runs the body. A body with a member max_team_size says its own; the default leaves 255 registers a
/// thread.
template <class Kernel>
inline constexpr int max_team_size = 256;
template <class Kernel>
  requires requires { Kernel::max_team_size; }
inline constexpr int max_team_size<Kernel> = Kernel::max_team_size;

/// The kernel of every body. Scratch is aligned to 1024 bytes, one 128-byte-swizzle atom.
template <class Kernel>
__global__ void __launch_bounds__(max_team_size<Kernel>, 1) run_body(__grid_constant__ Kernel const body, index_t first_block) {
  extern __shared__ __align__(1024) std::byte scratch[];
  block_team team{scratch};
  body(team, first_block + blockIdx.x);
}

/// Runs bodies on one CUDA stream. The stream is the caller's and outlives the handle and its copies; it belongs to the device that is
/// current here. Launches, copies and allocations follow the stream's order; launches may be captured in a graph. Safe to use from
/// several threads as far as the stream's order is nobody's concern. Throws cuda_error if there is no GPU or no code for it.
class cuda_executor {
 public:
  explicit cuda_executor(cudaStream_t stream) : stream_{stream} {
    detail::cuda_status(cudaGetDevice(&device_), "cuda_executor needs a GPU").or_throw();
    int major = attribute(cudaDevAttrComputeCapabilityMajor), minor = attribute(cudaDevAttrComputeCapabilityMinor);
    scratch_limit_ = static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
    multiprocessors_ = attribute(cudaDevAttrMultiProcessorCount);
    cudaFuncAttributes image;
    detail::cuda_status(cudaFuncGetAttributes(&image, run_body<detail::empty_body>), "no code for this GPU of compute capability ", major,
                        ".", minor, "; lacuna was compiled for ", compiled_for())
        .or_throw();
#ifdef LACUNA_HAS_SM90A
    bool const hopper = major == 9 && minor == 0;
#else
    bool const hopper = false;
#endif
    target_ = hopper ? target::sm90a : image.ptxVersion >= 80 ? target::sm80 : target::portable_cuda;
  }

  cudaStream_t stream() const { return stream_; }
  int device() const { return device_; }
  lacuna::target target() const { return target_; }

  /// The same stream with bodies chosen for another target: an sm_80 body is compiled for Hopper too, and so a test can run it there.
  /// Throws invalid_argument for a target whose bodies this GPU cannot run.
  cuda_executor targeting(lacuna::target other) const {
    bool const runs = other == target_ || (other == target::sm80 && target_ == target::sm90a) || other == target::portable_cuda;
    require(runs, "this GPU cannot run bodies for the target asked for; expected its own, sm80 on Hopper, or portable_cuda");
    cuda_executor copy = *this;
    copy.target_ = other;
    return copy;
  }

  int multiprocessors() const { return multiprocessors_; }

  /// Most bytes of scratch that a body may ask for.
  std::size_t scratch_limit() const { return scratch_limit_; }

  template <class Kernel>
    requires Body<Kernel>
  status launch(launch_shape shape, Kernel const& body) const {
    static_assert(sizeof(Kernel) <= 32'000, "a body is passed as a kernel parameter, which holds at most 32,764 bytes");
    std::size_t const scratch = body.scratch_bytes();
    if (shape.blocks <= 0) return {};
    if (shape.team_size < 32 || shape.team_size > max_team_size<Kernel> || shape.team_size % 32)
      return refuse("team_size is ", shape.team_size, "; expected a multiple of 32 up to ", max_team_size<Kernel>);
    if (scratch > scratch_limit_) return refuse("the body needs ", scratch, " bytes of scratch; a block of this GPU has ", scratch_limit_);

    detail::current_device const device{device_};
    // Always raised to the device's limit: threads that launch the same body with different scratch cannot undo each other's.
    if (scratch > scratch_without_asking) {
      auto const raised =
          cudaFuncSetAttribute(run_body<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(scratch_limit_));
      if (status s = detail::cuda_status(raised, "raising shared memory to ", scratch_limit_, " bytes"); !s) return s;
    }
    for (index_t first = 0; first < shape.blocks; first += max_grid) {
      cudaLaunchConfig_t config{};
      config.gridDim = static_cast<unsigned>(min(max_grid, shape.blocks - first));
      config.blockDim = static_cast<unsigned>(shape.team_size);
      config.dynamicSmemBytes = scratch;
      config.stream = stream_;
      auto const launched = cudaLaunchKernelEx(&config, run_body<Kernel>, body, first);
      if (status s = detail::cuda_status(launched, "launching ", shape.blocks, " blocks of ", shape.team_size, " threads"); !s) return s;
    }
    return {};
  }

  /// Throws cuda_error. Zero bytes give null.
  void* allocate(std::size_t bytes) const {
    void* memory = nullptr;
    detail::current_device const device{device_};
    if (bytes) detail::cuda_status(cudaMallocAsync(&memory, bytes, stream_), "allocating ", bytes, " bytes").or_throw();
    return memory;
  }

  void deallocate(void* memory, std::size_t) const {
    detail::current_device const device{device_};
    if (memory) static_cast<void>(detail::cuda_status(cudaFreeAsync(memory, stream_)));
  }

  /// Between any two of host and device memory. Host memory that is not pinned is read before the call returns.
  status copy(void* to, void const* from, std::size_t bytes) const {
    if (bytes == 0) return {};
    detail::current_device const device{device_};
    return detail::cuda_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "copying ", bytes, " bytes");
  }

  /// Zeroes device memory.
  status clear(void* memory, std::size_t bytes) const {
    if (bytes == 0) return {};
    detail::current_device const device{device_};
    return detail::cuda_status(cudaMemsetAsync(memory, 0, bytes, stream_), "clearing ", bytes, " bytes");
  }

  status synchronize() const { return detail::cuda_status(cudaStreamSynchronize(stream_), "waiting for the stream"); }

 private:
  static constexpr index_t max_grid = 0x7fffffff;
  static constexpr std::size_t scratch_without_asking = 48 * 1024;

  /// The architectures that this translation unit was compiled for: "800, 900a".
  static std::string compiled_for() {
    std::string names;
    for (int const arch : {__CUDA_ARCH_LIST__}) {
      if (!names.empty()) names += ", ";
      names += std::to_string(arch);
#ifdef LACUNA_HAS_SM90A
      if (arch == 900) names += "a";
#endif
    }
    return names;
  }

  int attribute(cudaDeviceAttr name) const {
    int value = 0;
    detail::cuda_status(cudaDeviceGetAttribute(&value, name, device_), "reading an attribute of device ", device_).or_throw();
    return value;
  }

  cudaStream_t stream_;
  int device_ = 0, multiprocessors_ = 0;
  std::size_t scratch_limit_ = 0;
  lacuna::target target_ = target::portable_cuda;
};

static_assert(Executor<cuda_executor>);

}  // namespace LACUNA_ARCH_NAMESPACE
}  // namespace lacuna
