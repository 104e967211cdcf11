#pragma once
#include <lacuna/kernels/attend_args.hpp>
#include <lacuna/kernels/tiles/prefix_sum.cuh>

namespace lacuna::sm90 {

/// What the consumers must know about a tile before they look at its segments.
class tile_flags {
 public:
  tile_flags() = default;
  __device__ tile_flags(bool partial, bool last) : bits_{partial * 1u | last * 2u} {}
  __device__ void half(int h, bool skipped, bool masked, bool element_wise) {
    bits_ |= (skipped * 1u | masked * 2u | element_wise * 4u) << (2 + 3 * h);
  }

  __device__ void set_columns() { bits_ |= 256u; }

  __device__ bool columns() const { return bits_ & 256u; }                        // slots of compact columns; members are bits of slots
  __device__ bool partial() const { return bits_ & 1; }                           // some segment has keys that nobody reads
  __device__ bool last() const { return bits_ & 2; }                              // no further tile
  __device__ bool skipped(int h) const { return bits_ >> (2 + 3 * h) & 1; }       // no row of the half reads anything
  __device__ bool masked(int h) const { return bits_ >> (3 + 3 * h) & 1; }        // some row of the half must not see some key
  __device__ bool element_wise(int h) const { return bits_ >> (4 + 3 * h) & 1; }  // ... of a segment whose other keys it may see

 private:
  std::uint32_t bits_;
};

/// One tile of 128 keys as the producer brings it: segments of consecutive keys from anywhere in a list.
template <int SegmentKeys>
struct key_tile {
  static constexpr int keys = 128, segments = keys / SegmentKeys;
  std::uint64_t members[segments];  // bit m: the tile's m-th member reads the segment
  std::int32_t begin[segments];     // first key of each segment
  std::uint8_t valid[segments];     // keys that belong to the list; V rows past them are zeroed
  tile_flags flags;
};

/// What holds of a warp's 32 segments, a bit each, for both halves of the rows.
struct segment_votes {
  std::uint32_t partial;          // has keys that nobody reads
  std::uint32_t read[2];          // some row of the half reads it
  std::uint32_t masked[2];        // some row of the half must not see some key
  std::uint32_t element_wise[2];  // some row of the half sees a part of it

  /// Of the tile of segments [i * Segments, (i + 1) * Segments).
  template <int Segments>
  __device__ tile_flags flags(int i, bool last) const {
    std::uint32_t const here = ((1u << Segments) - 1) << i * Segments;
    tile_flags f{(partial & here) != 0, last};
    for (int h = 0; h < 2; ++h) f.half(h, !(read[h] & here), (masked[h] & here) != 0, (element_wise[h] & here) != 0);
    return f;
  }
};

/// The rows of one half of a query tile: where they stand, and which members of the list they are.
struct half_rows {
  std::int32_t first, last;  // positions; none if last < first
  std::uint64_t members;
};

/// Cuts a list into segments, in order; the whole warp walks it, a lane an entry and then a lane a segment.
template <int SegmentKeys>
class segment_walk {
 public:
  __device__ segment_walk(index_row const& row, std::int32_t limit) : row_{row}, limit_{limit}, lane_{static_cast<int>(threadIdx.x % 32)} {
    refill();
  }

  __device__ bool done() const { return taken_ >= total_; }

  struct segment {
    std::int32_t begin = 0, valid = 0;
    std::uint64_t members = 0;
  };

  struct batch {
    segment mine;
    int count;
  };

  /// Lane i < count gets the i-th of the next 32 segments or fewer; past the list's end, an empty one that repeats the keys before.
  __device__ batch next() {
    batch b{{}, 0};
    while (b.count < 32 && !done()) {
      int const take = min(32 - b.count, total_ - taken_);
      segment const found = at(taken_ + lane_ - b.count);
      if (lane_ >= b.count && lane_ < b.count + take) b.mine = found;
      b.count += take, taken_ += take;
      if (done()) refill();
    }
    std::int32_t const before = __shfl_sync(0xffffffffu, b.mine.begin, max(b.count - 1, 0));
    if (lane_ >= b.count) b.mine.begin = before;
    return b;
  }

 private:
  /// Loads the next 32 entries that have keys at all.
  __device__ void refill() {
    total_ = taken_ = 0;
    while (total_ == 0 && entry_ < row_.span_count()) {
      int const mine = entry_ + lane_;
      span now{0, 0};
      if (mine < row_.span_count()) now = row_.span_at(mine), members_ = row_.members(mine);
      begin_ = now.begin, end_ = min(now.end, limit_);
      std::int32_t const count = end_ > begin_ ? (end_ - begin_ + SegmentKeys - 1) / SegmentKeys : 0;
      upto_ = tiles::prefix_sum(count, lane_), before_ = upto_ - count;
      total_ = __shfl_sync(0xffffffffu, upto_, 31);
      entry_ += 32;
    }
  }

  /// Segment k of the loaded entries; anything for k out of range.
  __device__ segment at(std::int32_t k) const {
    int owner = 0;
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
      if (__shfl_sync(0xffffffffu, upto_, owner + step - 1) <= k) owner += step;
    std::int32_t const first = __shfl_sync(0xffffffffu, begin_, owner), end = __shfl_sync(0xffffffffu, end_, owner);
    segment s;
    s.begin = first + (k - __shfl_sync(0xffffffffu, before_, owner)) * SegmentKeys;
    s.valid = min(end - s.begin, SegmentKeys);
    s.members = __shfl_sync(0xffffffffu, members_, owner);
    return s;
  }

  index_row row_;
  std::int32_t limit_;
  int lane_, entry_ = 0;
  std::int32_t begin_ = 0, end_ = 0, upto_ = 0, before_ = 0, total_ = 0, taken_ = 0;
  std::uint64_t members_ = ~std::uint64_t{0};
};

}  // namespace lacuna::sm90
