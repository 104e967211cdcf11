#pragma once

namespace lacuna::sm80 {

/// Waits until `threads` threads, a multiple of 32, have come to barrier `id` of the block; what they wrote before is then seen. Barrier 0
/// is __syncthreads().
__device__ inline void sync_threads(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

}  // namespace lacuna::sm80
