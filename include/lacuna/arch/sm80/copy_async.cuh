#pragma once
#include <cstdint>

namespace lacuna::sm80 {

/// Begins to copy 16 bytes from global to shared memory, past the registers; zeros if not `there` (`from` is then not read).
__device__ inline void copy_async(void* to, void const* from, bool there = true) {
  auto const at = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  int const bytes = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(at), "l"(__cvta_generic_to_global(from)), "r"(bytes) : "memory");
}

/// Ends the group of this thread's copies begun since the last one.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits until at most `Pending` groups of this thread's copies are under way. Other threads' copies need a barrier besides.
template <int Pending>
__device__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

}  // namespace lacuna::sm80
