#pragma once
#include <lacuna/core/macros.hpp>

#include <cstddef>
#include <cstdint>

namespace lacuna::sm90 {

__device__ inline std::uint32_t shared_address(void const* p) { return static_cast<std::uint32_t>(__cvta_generic_to_shared(p)); }

/// A barrier in shared memory that counts arrivals and bytes of bulk copies. One thread initialises it before a block-wide sync.
struct mbarrier {
  std::uint64_t word;

  __device__ void init(int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)), "r"(arrivals)); }

  /// Arrives once and announces `bytes` that copies will bring.
  __device__ void expect(std::uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)), "r"(bytes) : "memory");
  }
  __device__ void arrive() { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(this)) : "memory"); }

  /// Waits until the phase of this parity is complete. A fresh barrier is in phase 0: wait(1) returns at once.
  __device__ void wait(std::uint32_t parity) {
    std::uint32_t done = 0;
    while (!done)
      asm volatile(
          "{\n.reg .pred p;\n"
          "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
          "selp.u32 %0, 1, 0, p;\n}"
          : "=r"(done)
          : "r"(shared_address(this)), "r"(parity)
          : "memory");
  }
};

/// Makes barrier initialisation visible to the copy engine.
__device__ inline void fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

/// Orders ordinary writes to shared memory before reads by wgmma and the copy engine.
__device__ inline void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// Position in a ring of `Stages` buffers, with the parity of the current round.
template <int Stages>
struct ring {
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ void advance() {
    if (++stage == Stages) stage = 0, parity ^= 1;
  }
};

/// Named barriers of a block, for a subset of its warps.
__device__ inline void bar_sync(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
__device__ inline void bar_arrive(int id, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

}  // namespace lacuna::sm90
