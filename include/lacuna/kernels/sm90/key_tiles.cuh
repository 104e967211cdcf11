#pragma once
#include <lacuna/core/sparse_index.hpp>

namespace lacuna::sm90 {

/// One tile of 128 keys as the producer brings it: segments of consecutive keys from anywhere in a row's list.
template <int SegmentKeys>
struct key_tile {
  static constexpr int keys = 128, segments = keys / SegmentKeys;
  std::int32_t begin[segments];  // first key of each segment
  std::int32_t valid[segments];  // keys of it that belong to the list; the rest are weighed 0 and zeroed
  std::int32_t masked;           // some row must not see some valid key, or a segment is partial
  std::int32_t partial;          // some segment is partial
  std::int32_t last;             // no further tile
};

/// Cuts a row's spans, clipped to [0, limit), into tiles, in order.
template <int SegmentKeys>
class key_walk {
 public:
  using tile = key_tile<SegmentKeys>;

  __device__ key_walk(index_row const& row, std::int32_t limit) : row_{row}, limit_{limit} { settle(); }

  __device__ bool done() const { return entry_ >= row_.span_count(); }

  /// Fills the tile's segments; those that are left over repeat the last keys with none valid. The walk must not be done.
  __device__ void next(tile& t) {
    t.partial = 0;
    std::int32_t begin = now_.begin;
#pragma unroll
    for (int s = 0; s < tile::segments; ++s) {
      std::int32_t valid = 0;
      if (!done()) {
        begin = now_.begin;
        valid = min(now_.end - begin, SegmentKeys);
        now_.begin += valid;
        settle();
      }
      t.begin[s] = begin, t.valid[s] = valid;
      t.partial |= valid < SegmentKeys;
    }
    t.last = done();
  }

 private:
  /// Moves to the next entry that has keys left.
  __device__ void settle() {
    while (now_.begin >= now_.end && ++entry_ < row_.span_count()) {
      now_ = row_.span_at(entry_);
      now_.end = min(now_.end, limit_);
    }
  }

  index_row row_;
  std::int32_t limit_;
  int entry_ = -1;
  span now_{0, 0};
};

}  // namespace lacuna::sm90
