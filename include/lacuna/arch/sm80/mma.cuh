#pragma once
#include <lacuna/core/element.hpp>

#include <cstdint>
#include <type_traits>

namespace lacuna::sm80 {

/// d (16 x 8, fp32) += a (16 x 16) b (16 x 8), by one warp. Thread t = 4 g + c of the warp holds, in pairs of 16 bits: of a rows g and g + 8,
/// columns 2c, 2c + 1 (a[0], a[1]) and 8 + 2c, 9 + 2c (a[2], a[3]); of b column g, rows 2c, 2c + 1 (low) and 8 + 2c, 9 + 2c (high); of d row g,
/// columns 2c, 2c + 1 (d[0], d[1]) and row g + 8 (d[2], d[3]).
template <class T>
__device__ void multiply(float (&d)[4], std::uint32_t const (&a)[4], std::uint32_t low, std::uint32_t high) {
  if constexpr (std::is_same_v<T, bfloat16>)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(low), "r"(high));
  else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(low), "r"(high));
}

/// Four 8 x 8 matrices of 16-bit elements from shared memory: lane l gives the address of row l % 8 of matrix l / 8, and gets in r[m] columns
/// 2c, 2c + 1 of row g of matrix m (g = lane / 4, c = lane % 4).
__device__ inline void load_matrices(std::uint32_t (&r)[4], void const* row) {
  auto const at = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}

/// The same, each matrix transposed: r[m] holds rows 2c, 2c + 1 of column g.
__device__ inline void load_transposed(std::uint32_t (&r)[4], void const* row) {
  auto const at = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}

/// Two floats rounded to a pair of 16 bits, the first in the low half.
template <class T>
__device__ std::uint32_t pack_pair(float low, float high) {
  std::uint32_t pair;
  if constexpr (std::is_same_v<T, bfloat16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// 2 to the power x; denormal results are 0.
__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace lacuna::sm80
