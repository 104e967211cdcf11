#pragma once
#include <lacuna/kernels/tiles/query_tile.cuh>

namespace lacuna::sm80 {

/// One tile of keys from anywhere in a list, key by key. Keys that no row reads have no members and null rows, which land as zeros.
template <class T, int Keys>
struct key_tile {
  std::uint64_t members[Keys];  // bit m: the m-th member of the list reads the key
  T const* key_row[Keys];
  T const* value_row[Keys];
  std::int32_t key[Keys];
  std::uint64_t read_by_all, read_by_some;  // members that read all keys, and some
  std::int32_t begin, end;                  // keys lie in [begin, end); empty past the list's end
  bool seen;                                // the mask hides none of them from any row

  __device__ bool empty() const { return begin >= end; }

  /// No row of the range reads anything.
  __device__ bool skipped(tiles::row_range const& r, bool causal) const {
    return (read_by_some & r.members) == 0 || (causal && begin > r.last);
  }

  /// Some row of the range must not see some key.
  __device__ bool masked(tiles::row_range const& r, bool causal) const {
    return !seen || (read_by_all & r.members) != r.members || (causal && end > r.first + 1);
  }
};

}  // namespace lacuna::sm80
