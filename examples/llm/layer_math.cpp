#include "layer_math.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace llm {
namespace {

/// e^x to about 2 ulp, in a form that compilers vectorise: 2^n times a polynomial in the rest.
inline float exp_vectorisable(float x) {
  x = std::min(std::max(x, -87.0F), 88.0F);
  constexpr float to_integer = 12582912.0F;  // 1.5 * 2^23: adding it rounds to the nearest whole number
  float const shifted = x * 1.44269504F + to_integer;
  float const n = shifted - to_integer;
  float const r = (x - n * 0.693359375F) + n * 2.12194440e-4F;  // ln 2 in two parts
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  float const mantissa = p * r * r + r + 1.0F;
  return std::bit_cast<float>(std::bit_cast<std::int32_t>(mantissa) + (std::bit_cast<std::int32_t>(shifted) << 23));
}

/// Sum of squares with independent partial sums, so that it vectorises without reordering by the compiler.
float sum_of_squares(std::span<float const> x) {
  constexpr std::size_t lanes = 16;
  float partial[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= x.size(); i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) partial[lane] += x[i + lane] * x[i + lane];
  }
  float sum = 0;
  for (float const value : partial) sum += value;
  for (; i < x.size(); ++i) sum += x[i] * x[i];
  return sum;
}

}  // namespace

void rms_norm(std::span<float const> x, std::span<float const> weight, float epsilon, std::span<float> out) {
  float const mean_square = sum_of_squares(x) / static_cast<float>(x.size());
  float const scale = 1.0F / std::sqrt(mean_square + epsilon);
  for (std::size_t i = 0; i < x.size(); ++i) out[i] = x[i] * scale * weight[i];
}

void swiglu(std::span<float> gate, std::span<float const> up) {
  float* const g = gate.data();
  float const* const u = up.data();
  for (std::size_t i = 0; i < gate.size(); ++i) g[i] = g[i] / (1.0F + exp_vectorisable(-g[i])) * u[i];
}

rope_table::rope_table(std::int64_t positions, int head_size, double base, rope_pairs pairs)
    : half_(head_size / 2),
      pairs_(pairs),
      cosines_(static_cast<std::size_t>(positions * half_)),
      sines_(static_cast<std::size_t>(positions * half_)) {
  for (int i = 0; i < half_; ++i) {
    double const frequency = std::pow(base, -2.0 * i / head_size);
    for (std::int64_t position = 0; position < positions; ++position) {
      double const angle = static_cast<double>(position) * frequency;
      cosines_.data()[position * half_ + i] = static_cast<float>(std::cos(angle));
      sines_.data()[position * half_ + i] = static_cast<float>(std::sin(angle));
    }
  }
}

void rope_table::rotate(std::int64_t position, float* head) const {
  float const* const cosine = cosines_.data() + position * half_;
  float const* const sine = sines_.data() + position * half_;
  int const step = pairs_ == rope_pairs::neighbours ? 2 : 1;
  int const partner = pairs_ == rope_pairs::neighbours ? 1 : half_;
  for (int i = 0; i < half_; ++i) {
    float const a = head[i * step];
    float const b = head[i * step + partner];
    head[i * step] = a * cosine[i] - b * sine[i];
    head[i * step + partner] = a * sine[i] + b * cosine[i];
  }
}

double cross_entropy(std::span<float const> logits, std::int64_t target) {
  float const largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float const logit : logits) sum += static_cast<double>(std::exp(logit - largest));
  return std::log(sum) + static_cast<double>(largest) - static_cast<double>(logits[static_cast<std::size_t>(target)]);
}

std::int64_t index_of_largest(std::span<float const> logits) { return std::max_element(logits.begin(), logits.end()) - logits.begin(); }

}  // namespace llm
