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

/// Transposes rows of queries into a panel. Sixteen rows at a time, so that a line of the panel is written at once.
template <class T>
struct pack_rows {
  T const* const* row;  // [width]
  float* to;            // [dim, width]
  int width, dim;
  float factor;

  template <class Isa>
  [[gnu::always_inline]] inline void run() const {
    for (int r = 0; r < width; r += 16)
      for (int d = 0; d < dim; ++d)
        for (int i = 0; i < 16; ++i) to[d * width + r + i] = widen(row[r + i][d]) * factor;
  }
};

/// Transposes a panel of outputs back into rows, each multiplied by its norm.
template <class T>
struct unpack_rows {
  float const* from;  // [dim, width]
  T* const* row;      // [count]
  float const* norm;  // [count]
  int count, width, dim;

  template <class Isa>
  [[gnu::always_inline]] inline void run() const {
    for (int r = 0; r < count; r += 16)
      for (int d = 0; d < dim; ++d)
        for (int i = r; i < lacuna::min(r + 16, count); ++i) row[i][d] = from_float<T>(from[d * width + i] * norm[i]);
  }
};

}  // namespace lacuna::simd
