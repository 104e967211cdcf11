#pragma once
#include <lacuna/core/sparse_index.hpp>
#include <lacuna/kernels/tiles/prefix_sum.cuh>

namespace lacuna::sm80 {

/// A key of a list and the members that read it; past the list's end no key and no member.
struct listed_key {
  static constexpr std::int32_t none = -1;
  std::int32_t key = none;
  std::uint64_t members = 0;
};

/// A list as a stream of single keys, its spans first and then its columns. It lies in shared memory, so that it costs no registers
/// between calls; one warp at a time calls it, any warp of the block after a barrier. Entries are loaded 32 at a time, a lane an entry.
class key_stream {
 public:
  /// Keys at or past `limit` are left out.
  __device__ void start(index_row const& row, std::int32_t limit) {
    if (lane() == 0) row_ = row, limit_ = limit;
    __syncwarp();
    refill(0);
  }

  /// Lane i gets the i-th of the next 32 keys.
  __device__ listed_key next() {
    listed_key mine;
    for (int filled = 0; filled < 32 && taken_ < total_;) {
      int const take = min(32 - filled, total_ - taken_), ahead = lane() - filled;
      listed_key const found = at(taken_ + ahead);
      if (ahead >= 0 && ahead < take) mine = found;
      filled += take;
      advance(take);
    }
    return mine;
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x % 32); }

  __device__ void advance(std::int32_t take) {
    std::int32_t const taken = taken_ + take;
    bool const empty = taken == total_;
    int const window = window_;
    __syncwarp();
    if (lane() == 0) taken_ = taken;
    __syncwarp();
    if (empty) refill(window + 1);
  }

  /// Loads the first window from `window` on that has keys; total_ is 0 if none has.
  __device__ void refill(int window) {
    int const span_windows = (row_.span_count() + 31) / 32, windows = span_windows + (row_.column_count + 31) / 32;
    std::int32_t total = 0;
    for (; window < windows; ++window) {
      std::uint64_t members = ~std::uint64_t{0};
      span const keys = window < span_windows ? span_of(window * 32 + lane(), members) : column((window - span_windows) * 32 + lane());
      std::int32_t const upto = tiles::prefix_sum(max(min(keys.end, limit_) - keys.begin, 0), lane());
      total = __shfl_sync(0xffffffffu, upto, 31);
      if (total == 0) continue;
      begin_[lane()] = keys.begin, upto_[lane()] = upto, members_[lane()] = members;
      break;
    }
    if (lane() == 0) window_ = window, total_ = total, taken_ = 0;
    __syncwarp();
  }

  __device__ span span_of(int entry, std::uint64_t& members) const {
    if (entry >= row_.span_count()) return {0, 0};
    members = row_.members(entry);
    return row_.span_at(entry);
  }

  __device__ span column(int c) const {
    if (c >= row_.column_count || !row_.reads_column(c)) return {0, 0};
    return {row_.columns[c], row_.columns[c] + 1};
  }

  /// Key number k of the window; anything for k out of range.
  __device__ listed_key at(std::int32_t k) const {
    std::int32_t const upto = upto_[lane()];
    int owner = 0;
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
      if (__shfl_sync(0xffffffffu, upto, owner + step - 1) <= k) owner += step;
    std::int32_t const before = owner > 0 ? upto_[owner - 1] : 0;
    return {begin_[owner] + k - before, members_[owner]};
  }

  index_row row_;
  std::int32_t limit_, window_, total_, taken_;
  std::int32_t begin_[32], upto_[32];
  std::uint64_t members_[32];
};

}  // namespace lacuna::sm80
