#pragma once
#include <lacuna/kernels/host/simd.hpp>

#include <vector>

namespace test {

/// Every instruction set that this machine can run.
inline std::vector<lacuna::host_isa> isas() {
  std::vector<lacuna::host_isa> all;
  for (auto const isa : {lacuna::host_isa::baseline, lacuna::host_isa::avx2, lacuna::host_isa::avx512})
    if (isa <= lacuna::best_host_isa()) all.push_back(isa);
  return all;
}

}  // namespace test
