#pragma once

#include <cstdint>
#include <span>

#include "float_buffer.hpp"

namespace llm {

/// out = x / rms(x) * weight, one row. `epsilon` is added to the mean square.
void rms_norm(std::span<float const> x, std::span<float const> weight, float epsilon, std::span<float> out);

/// gate = silu(gate) * up, in place.
void swiglu(std::span<float> gate, std::span<float const> up);

/// Which two elements of a head turn together.
enum class rope_pairs { neighbours, halves };  // (2i, 2i + 1) or (i, i + d / 2)

/// Cosines and sines of every position and pair, computed in double: fp32 angles lose digits beyond a few thousand positions.
class rope_table {
 public:
  rope_table() = default;
  rope_table(std::int64_t positions, int head_size, double base, rope_pairs pairs);

  /// Turns one head in place.
  void rotate(std::int64_t position, float* head) const;

  std::span<float const> cosines() const { return cosines_.span(); }  // [positions, half]
  std::span<float const> sines() const { return sines_.span(); }

 private:
  int half_ = 0;
  rope_pairs pairs_ = rope_pairs::neighbours;
  float_buffer cosines_;
  float_buffer sines_;
};

/// ln(sum(exp(logits))) - logits[target].
double cross_entropy(std::span<float const> logits, std::int64_t target);

/// Index of the largest; the lower index wins ties.
std::int64_t index_of_largest(std::span<float const> logits);

}  // namespace llm
