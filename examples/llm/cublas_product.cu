#include "cublas_product.cuh"

#include <string>

namespace llm {
namespace {

void check(cublasStatus_t code, char const* doing) {
  if (code != CUBLAS_STATUS_SUCCESS) throw lacuna::cuda_error(std::string(doing) + ": " + cublasGetStatusString(code));
}

}  // namespace

cublas::cublas(cudaStream_t stream) {
  check(cublasCreate(&handle_), "starting cuBLAS");
  check(cublasSetStream(handle_, stream), "giving cuBLAS a stream");
}

cublas::~cublas() { cublasDestroy(handle_); }

/// cuBLAS counts by columns: what it calls y is [w.outer, rows], which is ours in memory.
void cublas::multiply(device_product const& p) const {
  float const one = 1;
  float const keep = p.result == product_result::add ? 1 : 0;
  auto const size = [](std::int64_t value) { return static_cast<int>(value); };
  check(cublasGemmEx(handle_, CUBLAS_OP_T, CUBLAS_OP_N, size(p.w.outer), size(p.rows), size(p.w.inner), &one, p.w.data.data(), CUDA_R_16BF,
                     size(p.w.inner), p.x, CUDA_R_16BF, size(p.w.inner), &keep, p.y, CUDA_R_32F, size(p.w.outer), CUBLAS_COMPUTE_32F,
                     CUBLAS_GEMM_DEFAULT),
        "multiplying matrices");
}

}  // namespace llm
