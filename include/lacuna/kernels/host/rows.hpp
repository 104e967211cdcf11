#pragma once
#include <lacuna/kernels/host/panel.hpp>

namespace lacuna::simd {

/// A 16-bit element as float, without branches so that loops over it vectorise.
[[gnu::always_inline]] inline float widen(float x) { return x; }
[[gnu::always_inline]] inline float widen(bfloat16 x) { return bit_cast<float>(std::uint32_t{x.bits} << 16); }
[[gnu::always_inline]] inline float widen(float16 x) {
  std::uint32_t const sign = (x.bits & 0x8000u) << 16, magnitude = x.bits & 0x7fffu;
  std::uint32_t const normal = (magnitude << 13) + (magnitude >= 0x7c00 ? 0x70000000u : 0x38000000u);
  std::uint32_t const small = bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f);
  return bit_cast<float>(sign | (magnitude >= 0x0400 ? normal : small));
}

/// Copies evenly spaced rows to 32-bit floats, `dim` apart.
template <class T>
struct widen_rows {
  T const* from;
  index_t stride;
  float* to;
  int count, dim;  // dim is a multiple of 8

  template <class Isa>
  [[gnu::always_inline]] inline void run() const {
    for (int i = 0; i < count; ++i) {
      T const* const source = from + i * stride;
      float* const target = to + index_t{i} * dim;
      for (int d = 0; d < dim; d += 8)
        for (int x = 0; x < 8; ++x) target[d + x] = widen(source[d + x]);
    }
  }
};

}  // namespace lacuna::simd
