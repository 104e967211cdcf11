// Two lists of architectures in one program: each library runs its own kernels, though both launch the same body.
#include "part.hpp"

#include <cuda_runtime_api.h>

#include <cstdio>

int main() {
  if (portable().kernel == hopper().kernel) {
    std::puts("the linker merged the launchers of two architecture lists");
    return 1;
  }
  int devices = 0, major = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return 77;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) != cudaSuccess) return 1;

  bool portable_has_code = false, hopper_has_code = false;
  int const portable_ran = portable().run(portable_has_code), hopper_ran = hopper().run(hopper_has_code);
  std::printf("portable ran %d, hopper ran %d\n", portable_ran, hopper_ran);
  bool const hopper_right = major == 9 ? hopper_ran == 900 : !hopper_has_code;
  return portable_has_code && portable_ran == 800 && hopper_right ? 0 : 1;
}
