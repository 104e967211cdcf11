#pragma once
#include <lacuna/core/math.hpp>

namespace lacuna {

/// The boundaries of a part of the key axis, and whose spans begin or end at each.
struct boundary_flips {
  std::uint32_t* words;  // [count, words_each]
  int words_each;        // 32 readers a word
  std::int32_t first;    // number of the first boundary
  int count;

  LACUNA_HD std::uint64_t at(int i) const {
    return words_each == 1 ? words[i] : words[2 * i] | std::uint64_t{words[2 * i + 1]} << 32;
  }

  /// Flips a reader at a boundary, if it is one of these. Safe from several members of a team at a time.
  LACUNA_HD void flip(std::int32_t boundary, int reader) const {
    std::int32_t const i = boundary - first;
    if (i < 0 || i >= count) return;
    std::uint32_t* const word = words + i * words_each + reader / 32;
    std::uint32_t const bit = 1u << (reader % 32);
#ifdef __CUDA_ARCH__
    atomicXor(word, bit);
#else
    __atomic_fetch_xor(word, bit, __ATOMIC_RELAXED);
#endif
  }
};

}  // namespace lacuna
