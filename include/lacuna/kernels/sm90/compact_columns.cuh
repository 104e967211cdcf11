#pragma once
#include <lacuna/arch/sm90/tensor_map.cuh>
#include <lacuna/kernels/attend_args.hpp>

#include <type_traits>

namespace lacuna::sm90 {

/// Keys and values of every head's columns side by side, so that a kernel reads columns as it reads runs of keys: column c of a list is
/// slot c. A list that several KV heads share has a copy for each of them.
template <class Element>
struct compact_columns {
  static constexpr int word_slots = 64, tile_slots = 128;

  int batch = 0, heads = 0;
  index_t slots = 0;                           // of a head: the index's room for columns, in whole tiles
  int dim = 0;                                 // of keys and of values
  Element *keys = nullptr, *values = nullptr;  // [batch, heads, slots, dim]
  std::uint64_t* unfit = nullptr;              // [batch, heads, slots / 64]; bit: the slot's value row holds an infinity or NaN

  static compact_columns of(index_layout const& l, attention_shape const& s, std::byte* memory) {
    compact_columns c;
    c.batch = l.batch, c.heads = max(l.heads, s.kv_heads), c.dim = s.key_dim;
    c.slots = round_up<index_t>(l.capacity.columns, tile_slots);
    lacuna::detail::carver block{memory};
    c.carve(block);
    return c;
  }

  static std::size_t bytes(index_layout const& l, attention_shape const& s) {
    compact_columns c = of(l, s, nullptr);
    lacuna::detail::carver block{nullptr};
    c.carve(block);
    return block.bytes();
  }

  LACUNA_HD index_t words() const { return slots / word_slots; }
  LACUNA_HD index_t word_at(index_t b, int head) const { return (b * heads + head) * words(); }
  tensor_view<Element const, 4> view(Element const* of) const {
    return {of, {batch, slots, heads, dim}, {heads * slots * dim, dim, slots * dim, 1}};
  }

 private:
  void carve(lacuna::detail::carver& block) {
    index_t const all = index_t{batch} * heads * slots;
    keys = block.take<Element>(all * dim), values = block.take<Element>(all * dim);
    unfit = block.take<std::uint64_t>(all / word_slots);
  }
};

/// Fills compact_columns from a call's keys and values. Slots past a list's columns, to the end of their tile, hold zeros; tiles past that
/// hold what they held: nobody reads them. A column past a sequence's keys is read as zeros. Block: 64 slots of one head.
template <class Args>
struct gather_columns {
  using element = typename Args::element;
  using value_type = std::remove_const_t<element>;
  Args args;
  compact_columns<value_type> to;

  static constexpr int max_team_size = 256;
  LACUNA_HD static std::size_t scratch_bytes() { return sizeof(std::uint64_t); }
  LACUNA_HD index_t blocks() const { return to.batch * to.heads * to.words(); }

  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
#ifdef __CUDA_ARCH__
    auto* const unfit = reinterpret_cast<unsigned*>(team.scratch());
    index_t const first = block % to.words() * 64, h = block / to.words(), b = h / to.heads;
    int const head = static_cast<int>(h % to.heads);
    int const list = list_head(head, to.heads, args.index.heads), kv_head = list_head(head, to.heads, args.shape.kv_heads);
    index_t const at = args.index.head_at(b, list);
    int const count = args.index.column_count[at];
    if (round_up<index_t>(count, to.tile_slots) <= first) return;
    if (threadIdx.x < 2) unfit[threadIdx.x] = 0;
    __syncthreads();
    sequence const s = sequence_at(args.lengths, args.shape, b);
    int const pieces = to.dim / 8;  // 16 bytes each
    for (int i = threadIdx.x; i < 64 * pieces; i += max_team_size) {
      int const slot = i / pieces, piece = i % pieces;
      index_t const c = first + slot;
      std::int32_t const key = c < count ? args.index.columns[at * args.index.capacity.columns + c] : -1;
      uint4 k{0, 0, 0, 0}, v{0, 0, 0, 0};
      if (key >= 0 && key < s.keys) {
        k = reinterpret_cast<uint4 const*>(args.kv.key(s, b, kv_head, key))[piece];
        v = reinterpret_cast<uint4 const*>(args.kv.value(s, b, kv_head, key))[piece];
      }
      index_t const row = (h * to.slots + c) * pieces + piece;
      reinterpret_cast<uint4*>(to.keys)[row] = k, reinterpret_cast<uint4*>(to.values)[row] = v;
      if (!finite(v.x) || !finite(v.y) || !finite(v.z) || !finite(v.w)) atomicOr(unfit + slot / 32, 1u << slot % 32);
    }
    __syncthreads();
    if (threadIdx.x == 0) to.unfit[block] = std::uint64_t{unfit[1]} << 32 | unfit[0];
#else
    (void)team, (void)block;
#endif
  }

 private:
  /// Both of two 16-bit elements: not all bits of the exponent are set.
  LACUNA_HD static bool finite(std::uint32_t pair) {
    constexpr std::uint32_t exponent = std::is_same_v<value_type, float16> ? 0x7c00 : 0x7f80;
    return (pair & exponent) != exponent && (pair >> 16 & exponent) != exponent;
  }
};

#ifdef __CUDACC__
/// The column tiles of one list that some row of a query tile reads; the whole warp walks them, a lane 64 slots.
class column_walk {
 public:
  __device__ column_walk(index_row const& row, int words, std::uint64_t const* unfit, std::int32_t limit)
      : row_{row}, words_{words}, unfit_{unfit}, limit_{limit} {
    seek();
  }

  __device__ bool done() const { return !found_; }

  struct segment {
    std::int32_t slot = 0, first = 0, last = -1;  // positions of the first and the last column
    std::uint64_t readers = 0;                    // bit: the list's tile reads the slot
    bool clear = false;                           // a value row that is not read holds an infinity or NaN
  };

  /// Lanes 2i, 2i + 1 get the i-th of 16 tiles of 128 slots, those without readers too.
  __device__ segment next() {
    segment const now = at(at_ + static_cast<int>(threadIdx.x % 32));
    at_ += 32;
    seek();
    return now;
  }

 private:
  /// Moves to the next 16 tiles that have readers.
  __device__ void seek() {
    int const total = (row_.column_count + 63) / 64;
#pragma unroll 1
    for (found_ = false; at_ < total; at_ += 32) {
      found_ = __any_sync(0xffffffffu, readers(at_ + static_cast<int>(threadIdx.x % 32)) != 0);
      if (found_) break;
    }
  }

  /// Bits of 64 slots, past the limit too.
  __device__ std::uint64_t bits(int k) const {
    int const here = min(row_.column_count - k * 64, 64);
    if (here <= 0) return 0;
    std::uint64_t read = row_.column_bits[2 * k];
    if (2 * k + 1 < words_) read |= std::uint64_t{row_.column_bits[2 * k + 1]} << 32;
    return read & ~std::uint64_t{0} >> (64 - here);
  }

  /// Bits of 64 slots that some row of the query tile can see. Columns ascend: those that none can see are the last ones.
  __device__ std::uint64_t readers(int k) const {
    std::uint64_t read = bits(k);
#pragma unroll 1
    while (read && row_.columns[k * 64 + 63 - __clzll(static_cast<long long>(read))] >= limit_)
      read &= ~(std::uint64_t{1} << (63 - __clzll(static_cast<long long>(read))));
    return read;
  }

  __device__ segment at(int k) const {
    segment s;
    s.slot = k * 64, s.readers = readers(k);
    if (k * 64 < row_.column_count) s.clear = (unfit_[k] & ~s.readers) != 0;
    if (!s.readers) return s;
    s.first = row_.columns[s.slot + __ffsll(static_cast<long long>(s.readers)) - 1];
    s.last = row_.columns[s.slot + 63 - __clzll(static_cast<long long>(s.readers))];
    return s;
  }

  index_row row_;
  int words_ = 0;
  std::uint64_t const* unfit_ = nullptr;
  std::int32_t limit_ = 0;
  int at_ = 0;
  bool found_ = false;
};
#endif

}  // namespace lacuna::sm90
