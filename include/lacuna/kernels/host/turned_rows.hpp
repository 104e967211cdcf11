#pragma once
#include <lacuna/kernels/host/rows.hpp>
#include <lacuna/rope/rope_table.hpp>

LACUNA_HOST_PRAGMAS_BEGIN

namespace lacuna::simd {

/// Copies rows from anywhere to 32-bit floats, `dim` apart.
template <class T>
struct gather_rows {
  T const* const* row;  // [count]
  float* to;
  int count, dim;  // dim is a multiple of 8

  template <class Isa>
  [[gnu::always_inline]] inline void run() const {
    for (int i = 0; i < count; ++i) {
      float* const target = to + index_t{i} * dim;
      for (int d = 0; d < dim; d += 8)
        for (int x = 0; x < 8; ++x) target[d + x] = widen(row[i][d + x]);
    }
  }
};

/// The same, each turned to a position of its own.
template <class T>
struct gather_turned_rows {
  T const* const* row;      // [count]
  index_t const* position;  // [count] that the table has
  float* to;
  int count, dim;
  rope_table table;

  template <class Isa>
  [[gnu::always_inline]] inline void run() const {
    for (int i = 0; i < count; ++i) {
      float* const target = to + index_t{i} * dim;
      float const *const cosine = table.cosines_at(position[i]), *const sine = table.sines_at(position[i]);
      if (table.pairing == rope_pairing::halves)
        turn_halves<Isa>(row[i], cosine, sine, target);
      else
        turn_neighbours(row[i], cosine, sine, target);
      for (int d = table.dim; d < dim; ++d) target[d] = widen(row[i][d]);
    }
  }

 private:
  template <class Isa>
  [[gnu::always_inline]] inline void turn_halves(T const* from, float const* cosine, float const* sine, float* target) const {
    int const pairs = table.pairs();
    int p = 0;
    for (; p + Isa::lanes <= pairs; p += Isa::lanes) {
      typename Isa::f32 a, b, c, s;
      load<Isa>(a, from + p), load<Isa>(b, from + pairs + p), load<Isa>(c, cosine + p), load<Isa>(s, sine + p);
      store<Isa>(target + p, a * c - b * s), store<Isa>(target + pairs + p, a * s + b * c);
    }
    for (; p < pairs; ++p) {
      float const a = widen(from[p]), b = widen(from[pairs + p]);
      target[p] = a * cosine[p] - b * sine[p], target[pairs + p] = a * sine[p] + b * cosine[p];
    }
  }

  [[gnu::always_inline]] inline void turn_neighbours(T const* from, float const* cosine, float const* sine, float* target) const {
    for (int p = 0; p < table.pairs(); ++p) {
      float const a = widen(from[2 * p]), b = widen(from[2 * p + 1]);
      target[2 * p] = a * cosine[p] - b * sine[p], target[2 * p + 1] = a * sine[p] + b * cosine[p];
    }
  }
};

/// Folds rows into the planes of a key summary, row after row.
template <class T, class Rule>
struct summarize_rows {
  T const* const* row;  // [count], at least one
  float* to;            // [planes, dim]
  int count, dim;       // dim is a multiple of 8

  template <class Isa>
  [[gnu::always_inline]] inline void run() const {
    for (int plane = 0; plane < Rule::planes; ++plane)
      for (int d = 0; d < dim; d += 8) {
        float sum[8];
        for (float& x : sum) x = Rule::start(plane);
        for (int i = 0; i < count; ++i)
          for (int x = 0; x < 8; ++x) sum[x] = Rule::add(plane, sum[x], widen(row[i][d + x]));
        for (int x = 0; x < 8; ++x) to[plane * dim + d + x] = Rule::finish(sum[x], count);
      }
  }
};

/// Largest entry of each row of a [count, width] panel, and of `best`, to `best`.
struct row_maxima {
  float const* s;
  int count, width;
  float* best;  // [count]

  template <class Isa>
  [[gnu::always_inline]] inline void run() const {
    for (int j = 0; j < count; ++j) {
      typename Isa::f32 most, x;
      load<Isa>(most, s + j * width);
      for (int r = Isa::lanes; r < width; r += Isa::lanes) load<Isa>(x, s + j * width + r), most = x > most ? x : most;
      best[j] = lacuna::max(best[j], max_of<Isa>(most));
    }
  }
};

}  // namespace lacuna::simd

LACUNA_HOST_PRAGMAS_END
