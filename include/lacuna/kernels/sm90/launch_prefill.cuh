#pragma once
#include <lacuna/exec/cuda_executor.cuh>
#include <lacuna/kernels/sm90/attend_prefill.cuh>
#include <lacuna/kernels/sm90/joining.hpp>

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

}  // namespace detail

/// Bytes of workspace of launch_prefill: a task counter, and the joined lists where list_joining joins them.
inline std::size_t prefill_workspace_bytes(index_layout const& layout, attention_shape const& shape) {
  return 256 + list_joining::of(layout, shape).bytes(layout, shape);
}

/// Runs attend_prefill on the executor's stream over an index of this layout. Refuses what the copy engine cannot address. Indices of
/// granularity 8 to 32 are read in 8-token chunks, all others in runs of 64.
template <int Dim, class Args>
status launch_prefill(cuda_executor const& exec, Args args, index_layout const& layout, attention_shape const& planned, std::byte* workspace) {
  auto* const counter = reinterpret_cast<std::int32_t*>(workspace);
  list_joining const joining = list_joining::of(layout, planned);
  int member_tokens = 1;
  if (joining.joins()) {
    sparse_index const joined = make_index(joining.layout(layout, planned), workspace + 256);
    if (status s = joining.run(exec, args.shape, args.lengths, args.index, joined); !s) return s;
    args.index = joined, member_tokens = layout.tile_rows;
  }
  bool const chunks = args.index.granularity >= 8 && args.index.granularity < 64;
  return chunks ? detail::launch_prefill<Dim, 8>(exec, args, member_tokens, counter)
                : detail::launch_prefill<Dim, 64>(exec, args, member_tokens, counter);
}

}  // namespace LACUNA_ARCH_NAMESPACE
}  // namespace lacuna::sm90
