#pragma once
#include <lacuna/kernels/host/panel.hpp>

/// Products of a few rows with many keys, which are bound by how fast keys and values stream in: lanes lie along the head dimension,
/// every key is read once for all rows, straight from memory and in its own element type.
LACUNA_HOST_PRAGMAS_BEGIN

namespace lacuna::simd {

inline constexpr int few_keys = 64;  // of a block: K and V rows of 128 floats are 64 KB of L2; logits are [rows, few_keys]

/// The last 8 dimensions of a head size that is no multiple of 16 lanes.
template <class Isa>
inline constexpr int tail_lanes = Isa::lanes == 16 ? 8 : 0;

/// Rows of keys or values that are needed next, brought into the cache while others are computed with: a head's rows are short pieces of
/// memory far apart, which hardware does not foresee.
template <class T>
struct next_rows {
  T const* const* row = nullptr;
  int count = 0, dim = 0;

  [[gnu::always_inline]] inline void fetch(int first, int end) const {
    for (int j = first; j < lacuna::min(end, count); ++j)
      for (int d = 0; d < dim; d += 64 / static_cast<int>(sizeof(T))) __builtin_prefetch(row[j] + d, 0, 3);
  }
};

/// s = Q K^T. Rows x keys of a register tile are 4 x 4 sums, with 16 registers 2 x 4. Rows and keys are computed as if there were a
/// multiple of four: q and s have the room, k repeats a key.
template <class T>
struct few_scores {
  float const* q;     // [rows, dim]
  T const* const* k;  // [count]
  float* s;           // [rows, few_keys]
  int rows, count, dim;
  next_rows<T> next;

  template <class Isa>
  [[gnu::always_inline]] inline void run() const {
    constexpr int most = Isa::accumulators / 6;
    int r = 0;
    for (; r + 1 < rows; r += most) keys<Isa, most>(r);
    if (r < rows) keys<Isa, 1>(r);
  }

 private:
  template <class Isa, int Rows>
  [[gnu::always_inline]] inline void keys(int r) const {
    for (int j = 0; j < count; j += 4) {
      if (r == 0) next.fetch(j, j + 4);
      tile<Isa, Rows>(r, j);
    }
  }

  template <class Isa, int Rows>
  [[gnu::always_inline]] inline void tile(int r, int j) const {
    constexpr int keys_at_once = 4;
    typename Isa::f32 acc[Rows][keys_at_once], key[keys_at_once], x;
#pragma GCC unroll 4
    for (int a = 0; a < Rows; ++a)
#pragma GCC unroll 4
      for (int b = 0; b < keys_at_once; ++b) acc[a][b] = typename Isa::f32{};
    int d = 0;
    for (; d + Isa::lanes <= dim; d += Isa::lanes) {
#pragma GCC unroll 4
      for (int b = 0; b < keys_at_once; ++b) load<Isa>(key[b], k[j + b] + d);
#pragma GCC unroll 4
      for (int a = 0; a < Rows; ++a) {
        load<Isa>(x, q + (r + a) * dim + d);
#pragma GCC unroll 4
        for (int b = 0; b < keys_at_once; ++b) acc[a][b] += x * key[b];
      }
    }
#pragma GCC unroll 4
    for (int a = 0; a < Rows; ++a) {
      f32x4 sums;
      sums_of_four<Isa>(sums, acc[a]);
      store<baseline>(s + (r + a) * few_keys + j, sums);
    }
    if constexpr (tail_lanes < Isa >> 0)
      if (d < dim) tail<Rows>(r, j, d);
  }

  template <int Rows>
  [[gnu::always_inline]] inline void tail(int r, int j, int d) const {
    f32x8 x, y;
    for (int b = 0; b < 4; ++b) {
      load<avx2>(x, k[j + b] + d);
      for (int a = 0; a < Rows; ++a) {
        load<avx2>(y, q + (r + a) * dim + d);
        s[(r + a) * few_keys + j + b] += sum_of<avx2>(x * y);
      }
    }
  }
};

/// Online softmax of [rows, few_keys] logits, lanes along the keys. Entries from `count` to the next multiple of 16 are set aside.
struct few_softmax {
  float* s;
  int rows, count;
  float factor;
  float *max, *sum, *keep;  // [rows]

  template <class Isa>
  [[gnu::always_inline]] inline void run() const {
    typename Isa::f32 by, floor, x, y;
    fill<Isa>(by, factor), fill<Isa>(floor, exp2_floor(factor));
    for (int r = 0; r < rows; ++r) {
      float* const row = s + r * few_keys;
      for (int j = count; j < round_up(count, 16); ++j) row[j] = -infinity;
      load<Isa>(x, row);
      for (int j = Isa::lanes; j < count; j += Isa::lanes) load<Isa>(y, row + j), x = y > x ? y : x;
      float const old = max[r], peak = lacuna::max(old, max_of<Isa>(x));
      float const base = peak == -infinity ? 0 : peak;
      max[r] = peak;
      typename Isa::f32 total = {};
      for (int j = 0; j < count; j += Isa::lanes) {
        load<Isa>(x, row + j);
        x -= base;
        exp2_scaled<Isa>(x, by, floor);
        total += x;
        store<Isa>(row + j, x);
      }
      fill<Isa>(x, old - base);
      exp2_scaled<Isa>(x, by, floor);
      keep[r] = x[0];
      sum[r] = sum[r] * x[0] + sum_of<Isa>(total);
    }
  }
};

/// o = keep * o + P V. Rows x vectors of a register tile are 4 x 4, with 16 registers 4 x 2. Rows past the last are computed too.
template <class T>
struct few_values {
  float const* p;     // [rows, few_keys]
  T const* const* v;  // [count]
  float const* keep;  // [rows]
  float* o;           // [rows, dim]
  int rows, count, dim;
  next_rows<T> next;

  template <class Isa>
  [[gnu::always_inline]] inline void run() const {
    int r = 0;
    for (; r + 1 < rows; r += 4) dims<Isa, 4>(r);
    if (r < rows) dims<Isa, 1>(r);
  }

 private:
  template <class Isa, int Rows>
  [[gnu::always_inline]] inline void dims(int r) const {
    constexpr int vectors = Isa::accumulators / 6;
    int d = 0;
    for (; d + vectors * Isa::lanes <= dim; d += vectors * Isa::lanes) tile<Isa, Rows, vectors>(r, d);
    for (; d + Isa::lanes <= dim; d += Isa::lanes) tile<Isa, Rows, 1>(r, d);
    if constexpr (tail_lanes < Isa >> 0)
      if (d < dim) tile<avx2, Rows, 1>(r, d);
  }

  template <class Isa, int Rows, int Vectors>
  [[gnu::always_inline]] inline void tile(int r, int d) const {
    typename Isa::f32 acc[Rows][Vectors], x[Vectors];
#pragma GCC unroll 4
    for (int a = 0; a < Rows; ++a)
#pragma GCC unroll 4
      for (int b = 0; b < Vectors; ++b) {
        load<Isa>(acc[a][b], o + (r + a) * dim + d + b * Isa::lanes);
        acc[a][b] *= keep[r + a];
      }
    for (int j = 0; j < count; ++j) {
      if (r == 0 && d == 0) next.fetch(j, j + 1);
#pragma GCC unroll 4
      for (int b = 0; b < Vectors; ++b) load<Isa>(x[b], v[j] + d + b * Isa::lanes);
#pragma GCC unroll 4
      for (int a = 0; a < Rows; ++a) {
        float const weight = p[(r + a) * few_keys + j];
#pragma GCC unroll 4
        for (int b = 0; b < Vectors; ++b) acc[a][b] += x[b] * weight;
      }
    }
#pragma GCC unroll 4
    for (int a = 0; a < Rows; ++a)
#pragma GCC unroll 4
      for (int b = 0; b < Vectors; ++b) store<Isa>(o + (r + a) * dim + d + b * Isa::lanes, acc[a][b]);
  }
};

}  // namespace lacuna::simd

LACUNA_HOST_PRAGMAS_END
