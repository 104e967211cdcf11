#pragma once
#include <lacuna/core/sparse_index.hpp>
#include <lacuna/kernels/tiles/prefix_sum.cuh>

namespace lacuna::sm80 {

/// A list as entries that each hold some keys: its spans, then its columns, 32 to an entry as one word of the row's bitmask.
struct list_entries {
  index_row row;

  __device__ int count() const { return row.span_count() + (row.column_count + 31) / 32; }
  __device__ bool is_span(int entry) const { return entry < row.span_count(); }

  /// The columns of an entry behind the spans that the row reads.
  __device__ std::uint32_t columns_of(int entry) const {
    int const word = entry - row.span_count(), left = row.column_count - word * 32;
    return row.column_bits[word] & (left >= 32 ? 0xffffffffu : (1u << left) - 1);
  }
  __device__ std::int32_t keys(int entry) const { return is_span(entry) ? row.span_at(entry).size() : __popc(columns_of(entry)); }

  /// The key of the `nth` bit set of an entry's columns.
  __device__ std::int32_t column(int entry, std::uint32_t bits, int nth) const {
    for (; nth > 0; --nth) bits &= bits - 1;
    return row.columns[(entry - row.span_count()) * 32 + __ffs(static_cast<int>(bits)) - 1];
  }
};

/// An entry, and the place in the list of its first key.
struct list_place {
  int entry;
  std::int32_t at;
};

/// Counts a list's keys and finds places in it. All threads of a block call it together, each for some neighbouring entries.
template <int Threads>
class list_count {
 public:
  /// `sums` is shared memory, a number a warp.
  __device__ list_count(list_entries const& list, std::int32_t (&sums)[Threads / 32]) : list_{list} {
    int const each = (list.count() + Threads - 1) / Threads, lane = static_cast<int>(threadIdx.x % 32);
    first_ = min(static_cast<int>(threadIdx.x) * each, list.count()), past_ = min(first_ + each, list.count());
    for (int e = first_; e < past_; ++e) keys_ += list.keys(e);
    std::int32_t const upto = tiles::prefix_sum(keys_, lane);
    if (lane == 31) sums[threadIdx.x / 32] = upto;
    __syncthreads();
    before_ = upto - keys_;
    for (int w = 0; w < Threads / 32; ++w) {
      if (w < static_cast<int>(threadIdx.x / 32)) before_ += sums[w];
      total_ += sums[w];
    }
  }

  __device__ std::int32_t total() const { return total_; }

  /// Whether key number `key` of the list is in one of this thread's entries; then `place` becomes that entry.
  __device__ bool find(std::int32_t key, list_place& place) const {
    if (key < before_ || key >= before_ + keys_) return false;
    place = {first_, before_};
    for (std::int32_t size = 0; place.at + (size = list_.keys(place.entry)) <= key;) place.at += size, ++place.entry;
    return true;
  }

 private:
  list_entries const& list_;
  int first_, past_;
  std::int32_t keys_ = 0, before_ = 0, total_ = 0;
};

/// Keys of a list one after the other, for one warp: 32 entries at a time are held, a lane an entry.
class key_walk {
 public:
  /// A key and the query tokens whose membership reads it; past the end no token.
  struct item {
    std::int32_t key = -1;
    std::uint32_t tokens = 0;
  };

  /// Keys [from, past) of the list, counted along it; `place` is where `from` is. Tokens are those in `tokens`, the first of which is member
  /// `first_member` of the list.
  __device__ key_walk(list_entries const& list, list_place place, std::int32_t from, std::int32_t past, int first_member,
                      std::uint32_t tokens)
      : list_{list}, first_member_{first_member}, all_{tokens}, entry_{place.entry}, left_{past - from} {
    if (left_ <= 0) return;
    load();
    taken_ = from - place.at;
  }

  /// Lane i < 32 gets number first + i of the next `count` keys; the walk goes past all of them.
  __device__ item next(int first, int count) {
    item mine;
    int const wanted = first + lane();
    for (int filled = 0; filled < count && left_ > 0;) {
      if (taken_ == total_) entry_ += 32, load();
      int const take = min(min(count - filled, total_ - taken_), left_);
      item const found = at(taken_ + wanted - filled);
      if (wanted >= filled && wanted < filled + take) mine = found;
      filled += take, taken_ += take, left_ -= take;
    }
    return mine;
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x % 32); }

  /// Loads the first 32 entries from entry_ on that hold keys.
  __device__ void load() {
    for (taken_ = total_ = 0;; entry_ += 32) {
      int const mine = entry_ + lane();
      std::int32_t keys = 0;
      begin_ = 0, tokens_ = all_;
      if (mine < list_.row.span_count()) {
        span const s = list_.row.span_at(mine);
        begin_ = s.begin, keys = s.size();
        if (list_.row.own_members) tokens_ &= static_cast<std::uint32_t>(list_.row.members(mine) >> first_member_);
      } else if (mine < list_.count()) {
        std::uint32_t const bits = list_.columns_of(mine);
        begin_ = static_cast<std::int32_t>(bits), keys = __popc(bits);
      }
      upto_ = tiles::prefix_sum(keys, lane()), before_ = upto_ - keys;
      total_ = __shfl_sync(0xffffffffu, upto_, 31);
      if (total_ > 0) return;
      if (entry_ + 32 >= list_.count()) break;
    }
    left_ = 0;
  }

  /// Key number k of the entries held; anything for k out of range.
  __device__ item at(std::int32_t k) const {
    int owner = 0;
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
      if (__shfl_sync(0xffffffffu, upto_, owner + step - 1) <= k) owner += step;
    std::int32_t const begin = __shfl_sync(0xffffffffu, begin_, owner), number = k - __shfl_sync(0xffffffffu, before_, owner);
    item found{begin + number, __shfl_sync(0xffffffffu, tokens_, owner)};
    bool const inside = k >= 0 && k < total_;
    if (inside && !list_.is_span(entry_ + owner)) found.key = list_.column(entry_ + owner, static_cast<std::uint32_t>(begin), number);
    return found;
  }

  list_entries const& list_;
  int first_member_;
  std::uint32_t all_;
  int entry_;
  std::int32_t left_;
  std::int32_t begin_ = 0, upto_ = 0, before_ = 0, total_ = 0, taken_ = 0;  // begin_: first key, or the bits of an entry of columns
  std::uint32_t tokens_ = 0;
};

}  // namespace lacuna::sm80
