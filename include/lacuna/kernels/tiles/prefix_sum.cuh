#pragma once
#include <cstdint>

namespace lacuna::tiles {

/// Sum of x over lanes 0 .. lane, its own included. The whole warp calls it.
__device__ inline std::int32_t prefix_sum(std::int32_t x, int lane) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    std::int32_t const y = __shfl_up_sync(0xffffffffu, x, step);
    if (lane >= step) x += y;
  }
  return x;
}

}  // namespace lacuna::tiles
