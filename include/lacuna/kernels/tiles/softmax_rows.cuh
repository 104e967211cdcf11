#pragma once
#include <lacuna/arch/sm80/mma.cuh>
#include <lacuna/core/element.hpp>
#include <lacuna/core/logits.hpp>
#include <lacuna/core/sparse_index.hpp>

#include <cstdint>

namespace lacuna::tiles {

/// A thread holds two rows of a tensor-core accumulator, 8 apart: register i belongs to row i / 2 % 2. So it is on Ampere and on Hopper.
struct row_pair {
  head_rule const* rule;
  std::int32_t position[2];
  int head[2];
  int member[2];  // bit of the row's token in membership masks
};
struct row_factors {
  float row[2];
};
struct row_result {
  float norm, lse;
};

/// Logits as the kernel holds them times `log2` are exponents of two; times `natural` they are logits.
struct logit_scale {
  float log2, natural;
  __device__ static logit_scale of(logit_transform const& t) {
    float const natural = t.soft_cap > 0 ? 1 : t.scale;
    return {natural * 1.4426950408889634f, natural};
  }
};

template <int N>
__device__ void cap(float (&logits)[N], logit_transform const& t) {
#pragma unroll
  for (float& x : logits) x = t(x);
}

using sm80::exp2_fast, sm80::pack_pair;

/// Online softmax of a thread's two rows; the four threads of a quad share them. Sums are the thread's own until finish().
class softmax_rows {
 public:
  /// Turns logits into weights exp(logit - max) and returns what everything accumulated before must be multiplied by.
  template <int N>
  __device__ row_factors absorb(float (&logits)[N], logit_scale const& scale) {
    row_factors const keep = raise(logits, scale);
    float const offset[2] = {offset_of(0, scale), offset_of(1, scale)};
    constexpr int lag = 8;  // an exponential takes longer than the additions and instructions between two of them
#pragma unroll
    for (int i = 0; i < N + lag; ++i) {
      if (i < N) logits[i] = exp2_fast(fmaf(logits[i], scale.log2, -offset[i / 2 % 2]));
      if (i >= lag) sum_[(i - lag) / 2 % 2] += logits[i - lag];
    }
    return keep;
  }

  /// The first half of absorb(): takes the logits' maxima in. Each of the logits must then be weighed.
  template <int N>
  __device__ row_factors raise(float const (&logits)[N], logit_scale const& scale) {
    constexpr int chains = N < 16 ? N / 4 : 4;  // of maxima, for a row: each step waits for the one before
    float peak[2][chains];
#pragma unroll
    for (int i = 0; i < 2 * chains; ++i) peak[i % 2][i / 2] = fmaxf(logits[i / 2 * 4 + i % 2 * 2], logits[i / 2 * 4 + i % 2 * 2 + 1]);
#pragma unroll
    for (int i = 16; i < N; i += 2) peak[i / 2 % 2][i / 4 % chains] = fmaxf(peak[i / 2 % 2][i / 4 % chains], fmaxf(logits[i], logits[i + 1]));
    row_factors keep;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float top = max_[r];
#pragma unroll
      for (float const x : peak[r]) top = fmaxf(top, x);
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
      float const before = max_[r];
      max_[r] = top;
      keep.row[r] = exp2_fast(before * scale.log2 - offset_of(r, scale));
      sum_[r] *= keep.row[r];
    }
    return keep;
  }

  /// The second half: the weight of a logit of row r, which joins the row's sum.
  __device__ float weigh(int r, float logit, logit_scale const& scale) {
    float const weight = exp2_fast(fmaf(logit, scale.log2, -offset_of(r, scale)));
    sum_[r] += weight;
    return weight;
  }

  /// Norm and LSE of row r; every thread of the warp calls it. The sink adds its term if there is one.
  __device__ row_result finish(int r, logit_scale const& scale, float const* sink, bool row_exists) const {
    float sum = sum_[r];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    float const peak = max_[r] == -infinity ? -infinity : max_[r] * scale.natural;
    if (!sink || !row_exists) return sum > 0 ? row_result{1 / sum, peak + logf(sum)} : row_result{0, -infinity};
    float const top = fmaxf(peak, *sink), keep = peak == -infinity ? 0 : expf(peak - top);
    float const all = sum * keep + expf(*sink - top);
    return {keep / all, top + logf(all)};
  }

 private:
  __device__ float offset_of(int r, logit_scale const& scale) const { return max_[r] == -infinity ? 0 : max_[r] * scale.log2; }

  float max_[2] = {-infinity, -infinity}, sum_[2] = {0, 0};
};

}  // namespace lacuna::tiles
