#pragma once
#include <lacuna/kernels/attend_args.hpp>
#include <lacuna/kernels/host/key_pieces.hpp>
#include <lacuna/kernels/host/turned_rows.hpp>
#include <lacuna/rope/attend_rope.hpp>

namespace lacuna {

/// Keys and values of one list, gathered into blocks so that products are large however short the spans are. Rows become 32-bit floats that
/// lie side by side: heads interleave in memory, and reading rows 2 KB apart in place took longer than copying them once. A position style
/// turns keys on the way, once for every variant.
template <class Kv, class Rope = given_rope>
class key_block {
 public:
  using element = typename Kv::element;

  /// Keys of a block: 96 x 64 logits are 24 KB, and K and V of head size 64 are 48 KB, which stays in L2 beside the panels.
  static constexpr int most = 96;

  struct segment {
    int first, count;  // of the block
    std::uint64_t members;
    std::uint32_t tiles;
    bool single;
  };

  /// `k` and `v` have copy_floats() of their dims; without `v` only keys are gathered.
  key_block(Kv const& kv, sequence const& s, index_t b, int head, attention_shape const& shape, host_isa isa, float* k, float* v)
      : kv_{kv}, s_{s}, b_{b}, head_{head}, key_dim_{shape.key_dim}, value_dim_{shape.value_dim}, isa_{isa}, k_copy_{k}, v_copy_{v} {}

  /// Keys of a list turn as its positions say. `k` has copy_floats() for every variant.
  void turn(Rope const& rope, attended_list const& list) { rope_ = rope, list_ = list; }

  static constexpr index_t copy_floats(int dim) { return index_t{most + simd::most_tile_keys} * dim; }

  /// Appends the piece; calls full() whenever the block holds `most` keys.
  template <class Full>
  void add(key_piece const& piece, Full const& full) {
    for (index_t at = piece.begin; at < piece.end;) {
      int const take = static_cast<int>(min<index_t>(min(piece.end - at, kv_.run(at)), most - count_));
      fetch(at, take, piece.rank + at - piece.begin);
      append(piece, at, take);
      at += take;
      if (count_ < most) continue;
      if (at < piece.end) foresee(at, min(piece.end - at, kv_.run(at)));
      flush(full);
    }
  }

  /// Hands out what is left.
  template <class Full>
  void flush(Full const& full) {
    if (count_ > 0) full();
    count_ = segments_ = 0, next_k_ = next_v_ = {};
  }

  int count() const { return count_; }
  int segments() const { return segments_; }
  segment const& at(int i) const { return segment_[i]; }
  std::int32_t const* keys() const { return key_; }
  simd::float_rows k(int first, int count, int variant = 0) const {
    return {k_copy_ + variant * copy_floats(key_dim_) + index_t{first} * key_dim_, key_dim_, count};
  }
  simd::float_rows v(int first, int count) const { return {v_copy_ + index_t{first} * value_dim_, value_dim_, count}; }

  /// What the block after this one will copy, as far as it is known to be there.
  simd::coming_rows const& next_k() const { return next_k_; }
  simd::coming_rows const& next_v() const { return next_v_; }

 private:
  void foresee(index_t slot, index_t rows) {
    int const count = static_cast<int>(min<index_t>(rows, most));
    constexpr index_t size = sizeof(element);
    next_k_ = {kv_.key(s_, b_, head_, slot), kv_.key_stride() * size, count, key_dim_ * static_cast<int>(size)};
    if (v_copy_) next_v_ = {kv_.value(s_, b_, head_, slot), kv_.value_stride() * size, count, value_dim_ * static_cast<int>(size)};
  }

  void fetch(index_t slot, int take, index_t rank) {
    element const* const key = kv_.key(s_, b_, head_, slot);
    if (turns())
      fetch_turned(key, slot, take, rank);
    else
      simd::run_on(isa_, simd::widen_rows<element>{key, kv_.key_stride(), k_copy_ + index_t{count_} * key_dim_, take, key_dim_});
    if (!v_copy_) return;
    element const* const value = kv_.value(s_, b_, head_, slot);
    simd::run_on(isa_, simd::widen_rows<element>{value, kv_.value_stride(), v_copy_ + index_t{count_} * value_dim_, take, value_dim_});
  }

  bool turns() const { return rope_.turns(); }

  void fetch_turned([[maybe_unused]] element const* key, [[maybe_unused]] index_t slot, [[maybe_unused]] int take,
                    [[maybe_unused]] index_t rank) {
    if constexpr (!std::same_as<Rope, given_rope>) {
      element const* row[most];
      index_t position[most];
      for (int v = 0; v < rope_.variants(); ++v) {
        for (int j = 0; j < take; ++j) row[j] = key + j * kv_.key_stride(), position[j] = rope_.key_turn(v, slot + j, rank + j, list_);
        float* const to = k_copy_ + v * copy_floats(key_dim_) + index_t{count_} * key_dim_;
        simd::run_on(isa_, simd::gather_turned_rows<element>{row, position, to, take, key_dim_, rope_.table});
      }
    }
  }

  void append(key_piece const& piece, index_t from, int take) {
    for (int j = 0; j < take; ++j) key_[count_ + j] = static_cast<std::int32_t>(from + j);
    segment* const last = segments_ ? segment_ + segments_ - 1 : nullptr;
    if (last && piece.single && last->single && last->members == piece.members && last->tiles == piece.tiles)
      last->count += take;
    else
      segment_[segments_++] = {count_, take, piece.members, piece.tiles, piece.single};
    count_ += take;
  }

  Kv const& kv_;
  sequence s_;
  index_t b_;
  int head_, key_dim_, value_dim_;
  host_isa isa_;
  float *k_copy_, *v_copy_;
  simd::coming_rows next_k_, next_v_;
  int count_ = 0, segments_ = 0;
  std::int32_t key_[most];
  segment segment_[most];
  [[no_unique_address]] Rope rope_ = {};
  attended_list list_ = {};
};

}  // namespace lacuna
