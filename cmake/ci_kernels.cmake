# Files of tests/instantiate that every CUDA build compiles, at most 8: one per kind of kernel. `all_kernels` compiles the others too.
set(LACUNA_CI_KERNELS
  portable_attend.cu
  portable_attend_f16.cu
  pruned.cu
  sm80_prefill.cu
  paged_bf16.cu)
