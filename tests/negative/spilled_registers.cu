// The cuda preset's own flags: registers that spill fail the build.
// expect: error.*Registers are spilled to local memory
__global__ void __launch_bounds__(1024, 2) too_many_live_values(float* p) {
  float value[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) value[i] = p[i * 1024 + threadIdx.x];
#pragma unroll
  for (int k = 0; k < 64; ++k)
#pragma unroll
    for (int i = 0; i < 64; ++i) value[i] = value[i] * value[(i * 7 + k) % 64] + p[k];
#pragma unroll
  for (int i = 0; i < 64; ++i) p[i * 1024 + threadIdx.x] = value[i];
}
