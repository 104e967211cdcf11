#pragma once

#include <cstdint>

#include <cublas_v2.h>

#include "device_buffer.cuh"
#include "matrix_product.hpp"

namespace llm {

/// A weight matrix in device memory; row i makes output i. Row-major.
struct device_matrix {
  device_buffer<lacuna::bfloat16> data;  // [outer, inner]
  std::int64_t outer = 0;
  std::int64_t inner = 0;
};

/// y = x w^T, or y += x w^T: factors in bf16, sums and results in fp32. Rows are dense.
struct device_product {
  lacuna::bfloat16 const* x;  // [rows, w.inner]
  std::int64_t rows;
  device_matrix const& w;
  float* y;  // [rows, w.outer]
  product_result result = product_result::assign;
};

/// cuBLAS on one stream. Throws lacuna::cuda_error.
class cublas {
 public:
  explicit cublas(cudaStream_t stream);
  ~cublas();
  cublas(cublas const&) = delete;
  cublas& operator=(cublas const&) = delete;

  void multiply(device_product const& product) const;

 private:
  cublasHandle_t handle_ = nullptr;
};

}  // namespace llm
