#pragma once

#include <cstdint>

#include <lacuna/exec/host_executor.hpp>

#include "float_buffer.hpp"

namespace llm {

enum class product_result { assign, add };

/// A weight matrix; row i makes output i. Row-major.
struct matrix {
  float_buffer data;  // [outer, inner]
  std::int64_t outer = 0;
  std::int64_t inner = 0;
};

/// Rows of a larger buffer.
template <class Float>
struct row_block {
  Float* data;
  std::int64_t stride;  // floats from one row to the next
};

/// y = x w^T, or y += x w^T.
struct matrix_product {
  row_block<float const> x;  // [rows, w.inner]
  std::int64_t rows;
  matrix const& w;
  row_block<float> y;  // [rows, w.outer]
  product_result result = product_result::assign;
};

/// Runs on the calling thread alone.
void multiply(matrix_product const& product);

/// Splits the rows of w among the threads: for few rows of x, where reading w is the cost.
void multiply_by_columns(matrix_product const& product, lacuna::host_executor const& exec);

/// Products run one to a thread, so BLAS must not start threads of its own; call once before the first product.
void keep_blas_single_threaded();

}  // namespace llm
