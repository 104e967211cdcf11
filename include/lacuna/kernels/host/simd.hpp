#pragma once
#include <lacuna/core/element.hpp>

#include <cstdint>

LACUNA_HOST_PRAGMAS_BEGIN

namespace lacuna {

/// Instruction sets that host kernels are compiled for; each includes the ones before it.
enum class host_isa { baseline, avx2, avx512 };

inline constexpr char const* host_isa_name(host_isa isa) {
  return isa == host_isa::avx512 ? "avx512" : isa == host_isa::avx2 ? "avx2" : "baseline";
}

/// The best set that this machine and its operating system support.
inline host_isa best_host_isa() {
#if defined(__x86_64__) || defined(__i386__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq"))
    return host_isa::avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return host_isa::avx2;
#endif
  return host_isa::baseline;
}

/// Host SIMD through vector extensions. Generic bodies take the instruction set as a type and must be always inlined: they get their
/// instructions from the trampoline that they end up in. Vectors travel by reference only, since their calling convention depends on
/// the instruction set; results are therefore written in place.
namespace simd {

typedef float f32x4 __attribute__((vector_size(16)));
typedef float f32x8 __attribute__((vector_size(32)));
typedef float f32x16 __attribute__((vector_size(64)));
typedef std::int32_t i32x4 __attribute__((vector_size(16)));
typedef std::int32_t i32x8 __attribute__((vector_size(32)));
typedef std::int32_t i32x16 __attribute__((vector_size(64)));
typedef float f32x4_anywhere __attribute__((vector_size(16), aligned(4), may_alias));
typedef float f32x8_anywhere __attribute__((vector_size(32), aligned(4), may_alias));
typedef float f32x16_anywhere __attribute__((vector_size(64), aligned(4), may_alias));
typedef std::int32_t i32x4_anywhere __attribute__((vector_size(16), aligned(4), may_alias));
typedef std::int32_t i32x8_anywhere __attribute__((vector_size(32), aligned(4), may_alias));
typedef std::int32_t i32x16_anywhere __attribute__((vector_size(64), aligned(4), may_alias));
typedef std::uint16_t u16x4_anywhere __attribute__((vector_size(8), aligned(2), may_alias));
typedef std::uint16_t u16x8_anywhere __attribute__((vector_size(16), aligned(2), may_alias));
typedef std::uint16_t u16x16_anywhere __attribute__((vector_size(32), aligned(2), may_alias));

/// `accumulators` is how many vectors a product may keep in registers, operands aside.
struct baseline {
  static constexpr int lanes = 4;
#if defined(__aarch64__)
  static constexpr int accumulators = 24;
#else
  static constexpr int accumulators = 12;
#endif
  using f32 = f32x4;
  using i32 = i32x4;
  using f32_anywhere = f32x4_anywhere;
  using i32_anywhere = i32x4_anywhere;
  using u16_anywhere = u16x4_anywhere;
};

struct avx2 {
  static constexpr int lanes = 8, accumulators = 12;  // of 16 registers
  using f32 = f32x8;
  using i32 = i32x8;
  using f32_anywhere = f32x8_anywhere;
  using i32_anywhere = i32x8_anywhere;
  using u16_anywhere = u16x8_anywhere;
};

struct avx512 {
  static constexpr int lanes = 16, accumulators = 24;  // of 32 registers
  using f32 = f32x16;
  using i32 = i32x16;
  using f32_anywhere = f32x16_anywhere;
  using i32_anywhere = i32x16_anywhere;
  using u16_anywhere = u16x16_anywhere;
};

template <class Isa>
[[gnu::always_inline]] inline void load(typename Isa::f32& x, float const* p) {
  x = *reinterpret_cast<typename Isa::f32_anywhere const*>(p);
}

template <class Isa>
[[gnu::always_inline]] inline void load(typename Isa::i32& x, std::int32_t const* p) {
  x = *reinterpret_cast<typename Isa::i32_anywhere const*>(p);
}

template <class Isa>
[[gnu::always_inline]] inline void store(float* p, typename Isa::f32 const& x) {
  *reinterpret_cast<typename Isa::f32_anywhere*>(p) = x;
}

template <class Isa>
[[gnu::always_inline]] inline void fill(typename Isa::f32& x, float value) {
  x = typename Isa::f32{} + value;
}

template <class Isa>
[[gnu::always_inline]] inline void load(typename Isa::f32& x, bfloat16 const* p) {
  auto const bits = *reinterpret_cast<typename Isa::u16_anywhere const*>(p);
  x = __builtin_bit_cast(typename Isa::f32, __builtin_convertvector(bits, typename Isa::i32) << 16);
}

/// The exponent moves by a sum, or for numbers below 2^-14 through a conversion, since those are multiples of 2^-24.
template <class Isa>
[[gnu::always_inline]] inline void load(typename Isa::f32& x, float16 const* p) {
  using i32 = typename Isa::i32;
  i32 const bits = __builtin_convertvector(*reinterpret_cast<typename Isa::u16_anywhere const*>(p), i32), zero = {};
  i32 const magnitude = bits & 0x7fff, finite = zero + 0x38000000, special = zero + 0x70000000;
  i32 const normal = (magnitude << 13) + (magnitude >= 0x7c00 ? special : finite);
  i32 const small = __builtin_bit_cast(i32, __builtin_convertvector(magnitude, typename Isa::f32) * 0x1p-24f);
  x = __builtin_bit_cast(typename Isa::f32, (bits & 0x8000) << 16 | (magnitude >= 0x0400 ? normal : small));
}

/// Lane i plus lanes i + 4, i + 8 and so on.
template <class Isa>
[[gnu::always_inline]] inline void fold(f32x4& sum, typename Isa::f32 const& x) {
  if constexpr (Isa::lanes == 16) {
    f32x8 const half = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) + __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
    sum = __builtin_shufflevector(half, half, 0, 1, 2, 3) + __builtin_shufflevector(half, half, 4, 5, 6, 7);
  } else if constexpr (Isa::lanes == 8) {
    sum = __builtin_shufflevector(x, x, 0, 1, 2, 3) + __builtin_shufflevector(x, x, 4, 5, 6, 7);
  } else {
    sum = x;
  }
}

/// Sum of the lanes: folded to four, then (0 + 2) + (1 + 3).
template <class Isa>
[[gnu::always_inline]] inline float sum_of(typename Isa::f32 const& x) {
  f32x4 sum;
  fold<Isa>(sum, x);
  return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

/// The sums of four vectors, each added up as sum_of does it.
template <class Isa>
[[gnu::always_inline]] inline void sums_of_four(f32x4& sums, typename Isa::f32 const (&x)[4]) {
  f32x4 a, b, c, d;
  fold<Isa>(a, x[0]), fold<Isa>(b, x[1]), fold<Isa>(c, x[2]), fold<Isa>(d, x[3]);
  f32x4 const ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
  f32x4 const cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
  sums = __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

template <class Isa>
[[gnu::always_inline]] inline float max_of(typename Isa::f32 const& x) {
  float most = x[0];
#pragma GCC unroll 16
  for (int i = 1; i < Isa::lanes; ++i) most = lacuna::max(most, x[i]);
  return most;
}

/// exp2(x * factor) for x <= 0, factor > 0; at or below 2^-126.5 exactly 0, at 0 exactly 1, NaN stays NaN. `floor` is
/// exp2_floor(factor). Relative error below 5e-7 besides the rounding of `factor`.
///
/// 1.5 * 2^23 added to a number rounds it to an integer in the low mantissa bits; with 127 on top those bits are the biased exponent
/// of 2^n, and shifting them into place drops the rest. n = -127 gives the bits of 0.0, which is how invisible keys get weight 0.
template <class Isa>
[[gnu::always_inline]] inline void exp2_scaled(typename Isa::f32& x, typename Isa::f32 const& factor, typename Isa::f32 const& floor) {
  constexpr float magic = 12582912.0f + 127.0f;
  using f32 = typename Isa::f32;
  using i32 = typename Isa::i32;
  x = floor > x ? floor : x;
  f32 n = x * factor + magic;
  i32 const power = __builtin_bit_cast(i32, n) << 23;
  n -= magic;
  f32 const f = x * factor - n;
  f32 y = f * 0.0011125579f + 0.0096662825f;
  y = y * f + 0.0555740025f;
  y = y * f + 0.2402235065f;
  y = y * f + 0.6931428308f;
  y = y * f + 1.0f;
  x = y * __builtin_bit_cast(f32, power);
}

inline float exp2_floor(float factor) { return -127.0f / factor; }

inline constexpr float log2e = 1.4426950408889634f;

/// tanh in place, relative error below 5e-7: an odd polynomial near 0, where 1 - 2 / (exp(2 x) + 1) would cancel.
template <class Isa>
[[gnu::always_inline]] inline void tanh_of(typename Isa::f32& x) {
  using f32 = typename Isa::f32;
  f32 const zero = {};
  f32 const square = x * x;
  f32 near = square * -0.0056474593f + 0.0205886530f;
  near = near * square - 0.0537245666f;
  near = near * square + 0.1333126352f;
  near = near * square - 0.3333327535f;
  near = near * square * x + x;
  f32 factor, floor, decay = x > zero ? -x : x;  // exp(-2 |x|)
  fill<Isa>(factor, 2 * log2e), fill<Isa>(floor, exp2_floor(2 * log2e));
  exp2_scaled<Isa>(decay, factor, floor);
  f32 const far = (1.0f - decay) / (1.0f + decay);
  f32 const limit = zero + 0.39f;
  x = square < limit ? near : x > zero ? far : -far;
}

#if defined(__x86_64__) || defined(__i386__)
template <class Body>
__attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,fma"), noinline)) void run_avx512(Body const& body) {
  body.template run<avx512>();
}

template <class Body>
__attribute__((target("avx2,fma"), noinline)) void run_avx2(Body const& body) {
  body.template run<avx2>();
}
#endif

template <class Body>
__attribute__((noinline)) void run_baseline(Body const& body) {
  body.template run<baseline>();
}

/// Runs body.run<Isa>(), an always inlined member, with the instructions of `isa`, which the machine must support.
template <class Body>
void run_on([[maybe_unused]] host_isa isa, Body const& body) {
#if defined(__x86_64__) || defined(__i386__)
  if (isa == host_isa::avx512) return run_avx512(body);
  if (isa == host_isa::avx2) return run_avx2(body);
#endif
  run_baseline(body);
}

}  // namespace simd
}  // namespace lacuna

LACUNA_HOST_PRAGMAS_END
