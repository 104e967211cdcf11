#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace llm {

/// splitmix64: the same numbers from the same seed with every compiler and standard library.
class random_source {
 public:
  explicit random_source(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }

  /// In [first, last]. The bias of the remainder is below 2^-40 for the small ranges used here.
  std::uint64_t between(std::uint64_t first, std::uint64_t last) { return first + next() % (last - first + 1); }

  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[between(0, i - 1)]);
  }

 private:
  std::uint64_t state_;
};

}  // namespace llm
