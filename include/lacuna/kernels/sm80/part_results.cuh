#pragma once
#include <lacuna/core/math.hpp>
#include <lacuna/kernels/sm80/arrival.cuh>

namespace lacuna::sm80 {

/// Four columns of a row whose results over disjoint sets of keys are joined: first every set's LSE is raised, then every set added.
class joined_row {
 public:
  __device__ void raise(float lse) { peak_ = fmaxf(peak_, lse); }
  __device__ void add(float lse, float4 const& mean) {
    if (lse == -infinity) return;
    float const weight = expf(lse - peak_);
    sum_ += weight;
    mean_.x += weight * mean.x, mean_.y += weight * mean.y, mean_.z += weight * mean.z, mean_.w += weight * mean.w;
  }
  __device__ float4 mean() const {
    float const norm = sum_ > 0 ? 1 / sum_ : 0;
    return {mean_.x * norm, mean_.y * norm, mean_.z * norm, mean_.w * norm};
  }
  __device__ float lse() const { return sum_ > 0 ? peak_ + logf(sum_) : -infinity; }

 private:
  float peak_ = -infinity, sum_ = 0;
  float4 mean_{0, 0, 0, 0};
};

/// Results of the parts of row tiles' lists, in the workspace: normalised outputs and LSEs. Written by many blocks, read by the last.
template <int ValueDim>
struct part_results {
  float* out = nullptr;                   // [row tile, part, row, value dim]
  float* lse = nullptr;                   // [row tile, part, row]
  unsigned long long* counters = nullptr; // [row tile]
  int most = 1, rows = 1;                 // parts of a tile, rows of a tile

#ifdef __CUDACC__
  __device__ arrival arrivals(index_t tile) const { return arrival{counters + tile}; }

  __device__ void put(index_t tile, int part, int row, int column, float4 const& mean, float row_lse) const {
    *reinterpret_cast<float4*>(out + at(tile, part, row) * ValueDim + column) = mean;
    if (column == 0) lse[at(tile, part, row)] = row_lse;
  }

  /// LSE of a row over all parts. The whole warp calls it.
  __device__ float lse_of(index_t tile, int count, int row) const {
    float peak = -infinity, sum = 0;
    for (int p = lane(); p < count; p += 32) peak = fmaxf(peak, __ldcg(lse + at(tile, p, row)));
    for (int step = 16; step > 0; step /= 2) peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, step));
    if (peak == -infinity) return -infinity;
    for (int p = lane(); p < count; p += 32) sum += expf(__ldcg(lse + at(tile, p, row)) - peak);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    return peak + logf(sum);
  }

  /// Four columns of a row over all parts, whose LSE is `all`; zeros from value dim on. The whole warp calls it with the same row.
  __device__ float4 mean_of(index_t tile, int count, int row, int column, float all) const {
    float4 sum{0, 0, 0, 0};
    for (int first = 0; first < count; first += 32) {
      float const mine = first + lane() < count ? __ldcg(lse + at(tile, first + lane(), row)) : -infinity;
      float const weight_of_mine = mine == -infinity ? 0 : expf(mine - all);
#pragma unroll 8
      for (int p = first; p < min(first + 32, count); ++p) {
        float const weight = __shfl_sync(0xffffffffu, weight_of_mine, p - first);
        if (column >= ValueDim) continue;
        float4 const part = __ldcg(reinterpret_cast<float4 const*>(out + at(tile, p, row) * ValueDim + column));
        sum.x += weight * part.x, sum.y += weight * part.y, sum.z += weight * part.z, sum.w += weight * part.w;
      }
    }
    return sum;
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x % 32); }
  __device__ index_t at(index_t tile, int part, int row) const { return (tile * most + part) * rows + row; }
#endif
};

}  // namespace lacuna::sm80
