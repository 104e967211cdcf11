// main() of the device tests: exits 77, which CTest reads as skipped, where there is no GPU to run on.
#define DOCTEST_CONFIG_IMPLEMENT
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <cstdio>

int main(int argc, char** argv) {
  int devices = 0;
  cudaError_t const found = cudaGetDeviceCount(&devices);
  if (found != cudaSuccess || devices == 0) {
    std::printf("skipped: no GPU (%s)\n", cudaGetErrorString(found));
    return 77;
  }
  return doctest::Context(argc, argv).run();
}
