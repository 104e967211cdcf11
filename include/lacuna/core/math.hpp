#pragma once
#include <lacuna/core/macros.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

namespace lacuna {

/// Counts and offsets in elements: 64 bits because batch * heads * tokens * dim passes 2^31.
using index_t = std::int64_t;

inline constexpr float infinity = std::numeric_limits<float>::infinity();

template <class T>
LACUNA_HD constexpr T min(T a, T b) {
  return b < a ? b : a;
}

template <class T>
LACUNA_HD constexpr T max(T a, T b) {
  return a < b ? b : a;
}

template <class T>
LACUNA_HD constexpr T clamp(T x, T low, T high) {
  return x < low ? low : high < x ? high : x;
}

/// std::bit_cast that device code may call.
template <class To, class From>
LACUNA_HD constexpr To bit_cast(From const& from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

/// Smallest n with n * step >= count. count >= 0, step > 0.
template <class T>
LACUNA_HD constexpr T ceil_div(T count, T step) {
  return (count + step - 1) / step;
}

template <class T>
LACUNA_HD constexpr T round_up(T count, T step) {
  return ceil_div(count, step) * step;
}

}  // namespace lacuna
