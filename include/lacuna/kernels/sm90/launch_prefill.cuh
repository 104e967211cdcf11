#pragma once
#include <lacuna/exec/cuda_executor.cuh>
#include <lacuna/kernels/pair_lists.hpp>
#include <lacuna/kernels/sm90/attend_prefill.cuh>

namespace lacuna::sm90 {
inline namespace LACUNA_ARCH_NAMESPACE {

namespace detail {

template <int Dim, int SegmentKeys, class Args>
status launch_prefill(cuda_executor const& exec, Args const& args, int member_tokens, std::int32_t* counter) {
  using body_type = attend_prefill<Args, Dim, SegmentKeys>;
  body_type body{};
  body.args = args;
  body.group = args.index.heads <= args.shape.kv_heads ? args.shape.group() : 1;
  body.tokens = min(body_type::rows / body.group, args.index.tile_rows);
  body.member_tokens = member_tokens;
  body.counter = counter;
  if (status s = make_tensor_map(body.q_map, "q", args.q, body.group, body.tokens); !s) return s;
  if (status s = make_tensor_map(body.k_map, "k", args.kv.keys, 1, SegmentKeys, body_type::box_panels); !s) return s;
  if (status s = make_tensor_map(body.v_map, "v", args.kv.values, 1, SegmentKeys, body_type::box_panels); !s) return s;
  if (status s = exec.clear(counter, sizeof(std::int32_t)); !s) return s;
  return exec.launch({min<index_t>(body.tasks(), exec.multiprocessors()), body_type::max_team_size}, body);
}

/// Lists of at most 64 rows that no group of heads shares fill half of the kernel's rows: they are read in pairs.
inline bool reads_pairs(index_layout const& l, attention_shape const& s) {
  bool const shared = l.heads <= s.kv_heads && s.group() > 1;
  return !shared && l.tile_rows == 64 && !l.capacity.members;
}

inline index_layout paired_layout(index_layout l) {
  l.capacity = {.spans = pair_lists::joined_capacity(l.capacity), .members = true};
  l.tile_rows *= 2;
  return l;
}

}  // namespace detail

/// Bytes of workspace of launch_prefill: a task counter, and the joined lists where lists are read in pairs.
inline std::size_t prefill_workspace_bytes(index_layout const& layout, attention_shape const& shape) {
  return 256 + (detail::reads_pairs(layout, shape) ? index_bytes(detail::paired_layout(layout)) : 0);
}

/// Runs attend_prefill on the executor's stream over an index of this layout. Refuses what the copy engine cannot address. Indices of
/// granularity 8 to 32 are read in 8-token chunks, all others in runs of 64.
template <int Dim, class Args>
status launch_prefill(cuda_executor const& exec, Args args, index_layout const& layout, std::byte* workspace) {
  auto* const counter = reinterpret_cast<std::int32_t*>(workspace);
  int member_tokens = 1;
  if (detail::reads_pairs(layout, args.shape)) {
    sparse_index const joined = make_index(detail::paired_layout(layout), workspace + 256);
    pair_lists const join{args.shape, args.lengths, args.index, joined};
    if (status s = exec.launch({join.blocks(), pair_lists::rows_per_block}, join); !s) return s;
    args.index = joined, member_tokens = layout.tile_rows;
  }
  bool const chunks = args.index.granularity >= 8 && args.index.granularity < 64;
  return chunks ? detail::launch_prefill<Dim, 8>(exec, args, member_tokens, counter)
                : detail::launch_prefill<Dim, 64>(exec, args, member_tokens, counter);
}

}  // namespace LACUNA_ARCH_NAMESPACE
}  // namespace lacuna::sm90
