#pragma once
#include <lacuna/exec/cuda_executor.cuh>
#include <lacuna/kernels/sm80/attend_decode.cuh>
#include <lacuna/kernels/sm80/check_copies.cuh>

namespace lacuna::sm80 {

inline namespace LACUNA_ARCH_NAMESPACE {
namespace detail {

/// Rows that share a fetch: heads of a group if they share lists, as many of them as fit, and tokens of a tile of the index.
template <class Body>
tiles::query_tiling decode_tiling(index_layout const& l, attention_shape const& s) {
  int const group = l.heads <= s.kv_heads ? s.group() : 1;
  int packed = min(group, Body::most_rows);
  while (group % packed) --packed;
  index_t const tokens = min<index_t>(min<index_t>(l.tile_rows, s.queries), min(Body::most_tokens, Body::most_rows / packed));
  return {packed, static_cast<int>(max<index_t>(1, tokens))};
}

/// Row tiles of a plan's capacities.
inline index_t row_tiles(tiles::query_tiling const& tiling, index_layout const& l, attention_shape const& s) {
  index_t const in_tile = ceil_div<index_t>(min<index_t>(l.tile_rows, s.queries), tiling.tokens);
  return s.batch * (s.query_heads / tiling.group) * in_tile * ceil_div<index_t>(s.queries, l.tile_rows);
}

template <class Body, int ValueDim>
part_results<ValueDim> lay_out_parts(index_layout const& l, attention_shape const& s, lacuna::detail::carver& block) {
  tiles::query_tiling const tiling = decode_tiling<Body>(l, s);
  index_t const tiles = row_tiles(tiling, l, s);
  part_results<ValueDim> p;
  p.most = decode_parts::most(s.keys), p.rows = tiling.tokens * tiling.group;
  p.counters = block.take<unsigned long long>(tiles);
  p.out = block.take<float>(tiles * p.most * p.rows * ValueDim);
  p.lse = block.take<float>(tiles * p.most * p.rows);
  return p;
}

/// Blocks of a row tile: two a multiprocessor in all, but some for a long sequence among many short ones.
inline int blocks_of_tile(cuda_executor const& exec, index_t tiles, int most_parts) {
  constexpr index_t fewest = 4, most = 4096;
  index_t const fair = ceil_div<index_t>(2 * exec.multiprocessors(), max<index_t>(tiles, 1));
  return static_cast<int>(min<index_t>(clamp(fair, fewest, most), most_parts));
}

/// As many slots as leave room for two blocks on Hopper, for one on the smallest of the others (RTX 4090).
template <class Body>
int slots_for(Body body, target t) {
  std::size_t const room = (t == target::sm90a ? 112 : 99) * std::size_t{1024};
  for (body.slots = Body::most_slots; body.slots > Body::fewest_slots && body.scratch_bytes() > room;) --body.slots;
  return body.slots;
}

}  // namespace detail

/// Bytes of workspace of launch_decode, for a plan's capacities. It needs no preparation.
template <class Args, int KeyDim, int ValueDim>
std::size_t decode_workspace_bytes(index_layout const& layout, attention_shape const& capacity) {
  lacuna::detail::carver count{nullptr};
  detail::lay_out_parts<attend_decode<Args, KeyDim, ValueDim>, ValueDim>(layout, capacity, count);
  return count.bytes();
}

/// Runs attend_decode on the executor's stream over an index of this layout. How rows are packed and lists are cut follows from the plan's
/// capacities and each list's length. Refuses rows that cannot be copied 16 bytes at a time.
template <int KeyDim, int ValueDim, class Args>
status launch_decode(cuda_executor const& exec, Args const& args, index_layout const& layout, attention_shape const& capacity,
                     std::byte* workspace) {
  using body_type = attend_decode<Args, KeyDim, ValueDim>;
  if (status s = check_copies("q", args.q); !s) return s;
  if (status s = check_copies(args.kv); !s) return s;
  lacuna::detail::carver block{workspace};
  body_type body{};
  body.args = args, body.tiling = detail::decode_tiling<body_type>(layout, capacity);
  body.parts = detail::lay_out_parts<body_type, ValueDim>(layout, capacity, block);
  while (body.row_warps * 16 < body.parts.rows) body.row_warps *= 2;
  body.slots = detail::slots_for(body, exec.target());
  body.blocks_of_tile = detail::blocks_of_tile(exec, body.tiling.tiles(args), body.parts.most);
  return exec.launch({body.blocks(), body_type::max_team_size}, body);
}

}  // namespace LACUNA_ARCH_NAMESPACE
}  // namespace lacuna::sm80
