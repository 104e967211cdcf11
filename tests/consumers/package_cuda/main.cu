#include "../attend_ones.hpp"

#include <lacuna/cuda.cuh>

#ifdef LACUNA_HAS_SM90A
#error "this target's architectures do not name sm_90a"
#endif

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return 77;
  cudaStream_t stream;
  if (cudaStreamCreate(&stream) != cudaSuccess) return 1;
  return attends_ones(lacuna::cuda_executor{stream}) ? 0 : 1;
}
