#pragma once
#include <lacuna/core/element.hpp>
#include <lacuna/core/sparse_index.hpp>
#include <lacuna/kernels/host/simd.hpp>

LACUNA_HOST_PRAGMAS_BEGIN

namespace lacuna::simd {

/// Query rows stand in the lanes. A panel is up to 64 of them, padded to `width`, a multiple of 16, so logits of a key block are
/// [keys, width], weights lie where logits lay, and outputs are [value dim, width]: no operation works across lanes. Keys and values
/// are scalars that are broadcast from their rows, so rows need no packing and may lie anywhere evenly spaced.
inline constexpr int most_panel_rows = 64;

constexpr int panel_width(int rows) { return round_up(rows, 16); }

/// Evenly spaced rows of 32-bit floats.
struct float_rows {
  float const* data;
  index_t stride;
  int count;
};

/// Rows of memory that the next block will be copied from, brought into L2 while this one is computed with: hardware does not foresee rows
/// that heads interleave, and waiting for them cost a third of the time.
struct coming_rows {
  void const* data = nullptr;
  index_t stride = 0;  // in bytes
  int count = 0, bytes = 0;

  [[gnu::always_inline]] inline void touch(int first, int end) const {
    for (int i = first; i < lacuna::min(end, count); ++i) {
      auto const* const row = static_cast<char const*>(data) + i * stride;
      for (int x = 0; x < bytes; x += 64) __builtin_prefetch(row + x, 0, 2);
    }
  }
};

/// Most keys of a register tile, and rows that must be readable past the last key of a block: a block of fewer is computed as if it had
/// them.
inline constexpr int most_tile_keys = 12;

/// s = K Q^T. A register tile of 6 x 4 or 12 x 2 vectors is 24 accumulators; with 4 or fewer operands and a broadcast they fit
/// 32 registers and 24 multiply-adds (12 cycles) need 10 to 14 loads (5 to 7 cycles).
struct score_panel {
  float const* q;  // [dim, width]
  float_rows k;    // [count, dim]
  float* s;        // [at least most_tile_keys, width]
  int width, dim;
  coming_rows next = {};

  template <class Isa>
  [[gnu::always_inline]] inline void run() const {
    constexpr int lanes = Isa::lanes, all = Isa::accumulators;
    int at = 0;
    if constexpr (all == 24)
      for (; width - at >= 4 * lanes; at += 4 * lanes) columns<Isa, 6, 4>(at);
    for (; width - at >= 2 * lanes; at += 2 * lanes) columns<Isa, all / 2, 2>(at);
    if constexpr (lanes == 16)
      if (at < width) columns<Isa, 12, 1>(at);
  }

 private:
  /// The last group of keys reaches back over the one before it, writing the same logits again.
  template <class Isa, int Keys, int Vectors>
  [[gnu::always_inline]] inline void columns(int column) const {
    for (int j = 0; j < k.count; j += Keys) {
      if (column == 0) next.touch(j, j + Keys);
      tile<Isa, Keys, Vectors>(lacuna::max(0, lacuna::min(j, k.count - Keys)), column);
    }
  }

  template <class Isa, int Keys, int Vectors>
  [[gnu::always_inline]] inline void tile(int first, int column) const {
    typename Isa::f32 acc[Keys][Vectors];
#pragma GCC unroll 16
    for (int i = 0; i < Keys; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) acc[i][v] = typename Isa::f32{};
    // Three rows share a pointer and two strides, so that 12 rows take 6 registers. Hidden from the optimiser, which would otherwise
    // advance every row's pointer and spill.
    float const* row[(Keys + 2) / 3];
#pragma GCC unroll 4
    for (int i = 0; i < (Keys + 2) / 3; ++i) {
      row[i] = k.data + (first + 3 * i) * k.stride;
      asm("" : "+r"(row[i]));
    }
    float const* query = q + column;
    for (int d = 0; d < dim; ++d, query += width) {
      typename Isa::f32 x[Vectors];
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) load<Isa>(x[v], query + v * Isa::lanes);
#pragma GCC unroll 16
      for (int i = 0; i < Keys; ++i) {
        float const key = row[i / 3][i % 3 * k.stride + d];
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) acc[i][v] += x[v] * key;
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < Keys; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) store<Isa>(s + (first + i) * width + column + v * Isa::lanes, acc[i][v]);
  }
};

/// s = cap * tanh(s * scale / cap).
struct soft_cap_panel {
  float* s;
  int count;  // of logits, a multiple of 16
  float cap, scale;

  template <class Isa>
  [[gnu::always_inline]] inline void run() const {
    for (int i = 0; i < count; i += Isa::lanes) {
      typename Isa::f32 x;
      load<Isa>(x, s + i);
      x *= scale / cap;
      tanh_of<Isa>(x);
      store<Isa>(s + i, x * cap);
    }
  }
};

/// Logits of keys that a row does not see become -inf, by causality, the head's rule and the membership mask.
struct mask_panel {
  float* s;  // [count, width]
  std::int32_t const* key;
  int count, width;
  std::int32_t const* position;  // [width]
  std::int32_t const* token;     // [width] of the tile
  bool causal;
  head_rule rule;
  std::uint64_t members;

  template <class Isa>
  [[gnu::always_inline]] inline void run() const {
    for (int r = 0; r < width; r += Isa::lanes) {
      typename Isa::i32 at, age, bit;
      load<Isa>(at, position + r), load<Isa>(bit, token + r);
      typename Isa::i32 const zero = {}, first = zero - 0x7fffffff - 1;
      typename Isa::i32 const low = zero + static_cast<std::int32_t>(members), high = zero + static_cast<std::int32_t>(members >> 32);
      bit &= 63;
      bit = (bit < 32 ? low : high) >> (bit & 31) & 1;
      age = at >= rule.dense_from ? first : at;  // sees everything, as if no key were out of its window
      for (int j = 0; j < count; ++j) mask<Isa>(j, r, at, age, bit);
    }
  }

 private:
  /// Comparisons only ever select: as values they would be taken apart lane by lane. Positions are below 2^30, so a wider window sees
  /// no more and the sums stay in 32 bits.
  template <class Isa>
  [[gnu::always_inline]] inline void mask(int j, int r, typename Isa::i32 const& at, typename Isa::i32 const& age,
                                          typename Isa::i32 const& member) const {
    constexpr std::int32_t far = 1 << 30;
    std::int32_t const past = key[j] + clamp(rule.window, -far, far);
    typename Isa::f32 x, nothing;
    load<Isa>(x, s + j * width + r), fill<Isa>(nothing, -infinity);
    x = member != 0 ? x : nothing;
    if (causal) x = at >= key[j] ? x : nothing;
    if (rule.window != head_rule::unlimited && key[j] >= rule.sinks) x = age < past ? x : nothing;
    store<Isa>(s + j * width + r, x);
  }
};

/// Online softmax of one key block: logits become weights exp((s - max) * scale), the state of each row moves on, `keep` is what
/// earlier sums and outputs must be scaled by. -inf weighs exactly 0, also when a row has seen nothing else.
struct softmax_panel {
  float* s;  // [count, width]
  int count, width;
  float factor;  // scale * log2(e)
  float *max, *sum, *keep;

  template <class Isa>
  [[gnu::always_inline]] inline void run() const {
    int r = 0;
    for (; width - r >= 4 * Isa::lanes; r += 4 * Isa::lanes) columns<Isa, 4>(r);
    for (; r < width; r += Isa::lanes) columns<Isa, 1>(r);
  }

 private:
  template <class Isa, int Vectors>
  [[gnu::always_inline]] inline void columns(int r) const {
    using f32 = typename Isa::f32;
    f32 peak[Vectors], total[Vectors], by, floor, x;
    fill<Isa>(by, factor), fill<Isa>(floor, exp2_floor(factor));
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) load<Isa>(peak[v], max + r + v * Isa::lanes);
    for (int j = 0; j < count; ++j)
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) {
        load<Isa>(x, s + j * width + r + v * Isa::lanes);
        peak[v] = x > peak[v] ? x : peak[v];
      }
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      int const at = r + v * Isa::lanes;
      f32 const zero = {};
      load<Isa>(x, max + at), load<Isa>(total[v], sum + at);
      store<Isa>(max + at, peak[v]);
      peak[v] = peak[v] == -infinity ? zero : peak[v];
      x -= peak[v];
      exp2_scaled<Isa>(x, by, floor);
      store<Isa>(keep + at, x);
      total[v] *= x;
    }
    for (int j = 0; j < count; ++j)
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) {
        float* const weight = s + j * width + r + v * Isa::lanes;
        load<Isa>(x, weight);
        x -= peak[v];
        exp2_scaled<Isa>(x, by, floor);
        total[v] += x;
        store<Isa>(weight, x);
      }
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) store<Isa>(sum + r + v * Isa::lanes, total[v]);
  }
};

/// o = keep * o + V^T P. Register tiles as in score_panel, with 12 or 8 dimensions in place of keys.
struct value_panel {
  float const* p;     // [count, width]
  float_rows v;       // [count, dim]
  float const* keep;  // [width], or null for 1
  float* o;           // [dim, width]
  int width, dim;     // dim is a multiple of 8
  coming_rows next = {};

  template <class Isa>
  [[gnu::always_inline]] inline void run() const {
    constexpr int lanes = Isa::lanes;
    int at = 0;
    if constexpr (Isa::accumulators == 24) {
      for (; width - at >= 2 * lanes; at += 2 * lanes) rows<Isa, 8, 2>(rows<Isa, 12, 2>(0, at, dim / 24 * 24), at, dim);
      if (width - at >= lanes) rows<Isa, 8, 1>(0, at, dim);
    } else {
      for (; width - at >= 2 * lanes; at += 2 * lanes) rows<Isa, 4, 2>(0, at, dim);
    }
  }

 private:
  template <class Isa, int Dims, int Vectors>
  [[gnu::always_inline]] inline int rows(int d, int column, int end) const {
    for (; d < end; d += Dims) {
      if (column == 0) next.touch(d * next.count / dim, (d + Dims) * next.count / dim);
      tile<Isa, Dims, Vectors>(d, column);
    }
    return d;
  }
  template <class Isa, int Dims, int Vectors>
  [[gnu::always_inline]] inline void tile(int first, int column) const {
    typename Isa::f32 acc[Dims][Vectors];
    float* const out = o + first * width + column;
#pragma GCC unroll 16
    for (int i = 0; i < Dims; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < Vectors; ++j) {
        load<Isa>(acc[i][j], out + i * width + j * Isa::lanes);
        if (!keep) continue;
        typename Isa::f32 x;
        load<Isa>(x, keep + column + j * Isa::lanes);
        acc[i][j] *= x;
      }
    float const *weight = p + column, *value = v.data + first;
    for (int n = 0; n < v.count; ++n, weight += width, value += v.stride) {
      typename Isa::f32 x[Vectors];
#pragma GCC unroll 4
      for (int j = 0; j < Vectors; ++j) load<Isa>(x[j], weight + j * Isa::lanes);
#pragma GCC unroll 16
      for (int i = 0; i < Dims; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < Vectors; ++j) acc[i][j] += x[j] * value[i];
    }
#pragma GCC unroll 16
    for (int i = 0; i < Dims; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < Vectors; ++j) store<Isa>(out + i * width + j * Isa::lanes, acc[i][j]);
  }
};

/// Index of the first row with an infinity or a NaN, or `rows.count`.
struct find_not_finite {
  float_rows rows;
  int dim;
  int* found;

  template <class Isa>
  [[gnu::always_inline]] inline void run() const {
    typename Isa::f32 x;
    int i = 0;
    for (; i < rows.count; ++i) {
      float const* const row = rows.data + i * rows.stride;
      float rest = 0;
      typename Isa::f32 sum = {};
      int d = 0;
      for (; d + Isa::lanes <= dim; d += Isa::lanes) load<Isa>(x, row + d), sum += x - x;
      for (; d < dim; ++d) rest += row[d] - row[d];
      if (!(sum_of<Isa>(sum) + rest == 0)) break;
    }
    *found = i;
  }
};

}  // namespace lacuna::simd

LACUNA_HOST_PRAGMAS_END
