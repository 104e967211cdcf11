// Compiled twice, with PART = portable and PART = hopper.
#include "part.hpp"

#include <lacuna/cuda.cuh>
#include <lacuna/exec/workspace.hpp>

#if defined(LACUNA_HAS_SM90A) != EXPECT_SM90A
#error "LACUNA_HAS_SM90A does not follow this target's architectures"
#endif

/// Tells which architecture's code runs.
struct report_architecture {
  int* architecture;

  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, lacuna::index_t) const {
#ifdef __CUDA_ARCH__
    if (team.rank() == 0) *architecture = __CUDA_ARCH__;
#else
    static_cast<void>(team);
#endif
  }
};

namespace {

int run(bool& has_code) try {
  has_code = true;
  cudaStream_t stream;
  if (cudaStreamCreate(&stream) != cudaSuccess) return 0;
  lacuna::cuda_executor const exec{stream};
  lacuna::workspace const memory{exec, sizeof(int)};
  report_architecture const body{reinterpret_cast<int*>(memory.data())};
  exec.launch({.blocks = 1, .team_size = 32}, body).or_throw();
  int architecture = 0;
  exec.copy(&architecture, body.architecture, sizeof(int)).or_throw();
  exec.synchronize().or_throw();
  return architecture;
} catch (lacuna::cuda_error const&) {
  has_code = false;
  return 0;
}

}  // namespace

part PART() { return {reinterpret_cast<void const*>(&lacuna::run_body<report_architecture>), run}; }
