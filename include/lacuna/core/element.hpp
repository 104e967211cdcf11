#pragma once
#include <lacuna/core/math.hpp>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace lacuna {

/// Storage types of 16 and 8 bits. Arithmetic is done in float; conversions round to nearest even and need no CUDA toolkit.
struct bfloat16 {
  std::uint16_t bits;

  bfloat16() = default;
  LACUNA_HD constexpr explicit bfloat16(float x) : bits{round(bit_cast<std::uint32_t>(x))} {}
  LACUNA_HD constexpr explicit operator float() const { return bit_cast<float>(std::uint32_t{bits} << 16); }

 private:
  LACUNA_HD static constexpr std::uint16_t round(std::uint32_t x) {
    if ((x & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(x >> 16 | 0x40);  // NaN stays NaN
    return static_cast<std::uint16_t>((x + 0x7fff + (x >> 16 & 1)) >> 16);
  }
};

/// IEEE binary16: overflow gives infinity, subnormals are kept.
struct float16 {
  std::uint16_t bits;

  float16() = default;
  LACUNA_HD constexpr explicit float16(float x) : bits{round(bit_cast<std::uint32_t>(x))} {}
  LACUNA_HD constexpr explicit operator float() const {
#ifdef __CUDA_ARCH__
    if (!__builtin_is_constant_evaluated()) {  // one instruction; the integer form below spills registers in an unrolled dot product
      float x;
      asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
      return x;
    }
#endif
    std::uint32_t const sign = std::uint32_t{bits} >> 15 << 31, magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00) return bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ff) << 13);
    if (magnitude >= 0x0400) return bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
    return bit_cast<float>(sign | bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f));
  }

 private:
  LACUNA_HD static constexpr std::uint16_t round(std::uint32_t x) {
    std::uint32_t const sign = x >> 16 & 0x8000, magnitude = x & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00);
    if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00);
    if (magnitude >= 0x38800000u) return static_cast<std::uint16_t>(sign | (magnitude - 0x38000000u + 0xfff + (magnitude >> 13 & 1)) >> 13);
    // Below 2^-14 adding 0.5 places the last kept bit at the end of the mantissa, so the addition itself rounds.
    float const shifted = bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
};

/// FP8 with 4 exponent and 3 mantissa bits (OCP e4m3fn): no infinity, largest 448, overflow saturates, 0x7f is NaN.
struct fp8_e4m3 {
  std::uint8_t bits;

  fp8_e4m3() = default;
  LACUNA_HD constexpr explicit fp8_e4m3(float x) : bits{round(bit_cast<std::uint32_t>(x))} {}
  LACUNA_HD constexpr explicit operator float() const {
    std::uint32_t const sign = std::uint32_t{bits} >> 7 << 31, magnitude = bits & 0x7fu;
    if (magnitude == 0x7f) return bit_cast<float>(sign | 0x7fc00000u);
    if (magnitude >= 8) return bit_cast<float>(sign | ((magnitude << 20) + 0x3c000000u));
    return bit_cast<float>(sign | bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-9f));
  }

 private:
  LACUNA_HD static constexpr std::uint8_t round(std::uint32_t x) {
    std::uint32_t const sign = x >> 24 & 0x80, magnitude = x & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<std::uint8_t>(sign | 0x7f);
    if (magnitude >= 0x43e00000u) return static_cast<std::uint8_t>(sign | 0x7e);
    if (magnitude >= 0x3c800000u) {
      std::uint32_t const kept = (magnitude - 0x3c000000u + 0x7ffff + (magnitude >> 20 & 1)) >> 20;
      return static_cast<std::uint8_t>(sign | (kept > 0x7e ? 0x7e : kept));
    }
    float const shifted = bit_cast<float>(magnitude) + 0x1p14f;  // the last mantissa bit of 2^14 is 2^-9
    return static_cast<std::uint8_t>(sign | (bit_cast<std::uint32_t>(shifted) - 0x46800000u));
  }
};

/// A type that queries, keys and values may have.
template <class T>
concept AttentionElement = std::same_as<T, float> || std::same_as<T, bfloat16> || std::same_as<T, float16>;

template <class T>
LACUNA_HD constexpr float to_float(T x) {
  return static_cast<float>(x);
}

template <class T>
LACUNA_HD constexpr T from_float(float x) {
  return static_cast<T>(x);
}

template <class T>
inline constexpr char const* element_name = "?";
template <>
inline constexpr char const* element_name<float> = "f32";
template <>
inline constexpr char const* element_name<bfloat16> = "bf16";
template <>
inline constexpr char const* element_name<float16> = "f16";
template <>
inline constexpr char const* element_name<fp8_e4m3> = "fp8_e4m3";

}  // namespace lacuna
