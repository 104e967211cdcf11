#include "matrix_product.hpp"

#include <cblas.h>

#include <algorithm>

namespace llm {
namespace {

/// Rows [begin, end) of w, which are columns [begin, end) of y.
void multiply_slice(matrix_product const& p, std::int64_t begin, std::int64_t end) {
  if (p.rows == 0 || begin == end) return;
  auto const blas = [](std::int64_t value) { return static_cast<blasint>(value); };
  float const beta = p.result == product_result::add ? 1.0F : 0.0F;
  float const* const w = p.w.data.data() + begin * p.w.inner;
  float* const y = p.y.data + begin;
  if (p.rows == 1) {
    cblas_sgemv(CblasRowMajor, CblasNoTrans, blas(end - begin), blas(p.w.inner), 1.0F, w, blas(p.w.inner), p.x.data, 1, beta, y, 1);
  } else {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, blas(p.rows), blas(end - begin), blas(p.w.inner), 1.0F, p.x.data, blas(p.x.stride),
                w, blas(p.w.inner), beta, y, blas(p.y.stride));
  }
}

}  // namespace

void keep_blas_single_threaded() { openblas_set_num_threads(1); }

void multiply(matrix_product const& product) { multiply_slice(product, 0, product.w.outer); }

void multiply_by_columns(matrix_product const& product, lacuna::host_executor const& exec) {
  constexpr std::int64_t smallest = 64;  // below, waking a thread costs more than it saves
  std::int64_t const outer = product.w.outer;
  std::int64_t const parts = std::clamp<std::int64_t>(outer / smallest, 1, exec.threads());
  exec.for_each(parts, 0,
                [&](std::int64_t part, std::byte*) { multiply_slice(product, outer * part / parts, outer * (part + 1) / parts); });
}

}  // namespace llm
