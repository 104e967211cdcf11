#pragma once
#include <lacuna/exec/cuda_executor.cuh>
#include <lacuna/kernels/sm90/attend_prefill.cuh>

namespace lacuna::sm90 {
inline namespace LACUNA_ARCH_NAMESPACE {

/// Bytes of workspace of the prefill kernel: its task counter.
inline constexpr std::size_t prefill_workspace_bytes = 256;

/// Runs attend_prefill on the executor's stream. Refuses what the copy engine cannot address.
template <int Dim, class Args>
status launch_prefill(cuda_executor const& exec, Args const& args, std::byte* workspace) {
  using body_type = attend_prefill<Args, Dim>;
  body_type body{};
  body.args = args;
  body.group = args.index.heads <= args.shape.kv_heads ? args.shape.group() : 1;
  body.tokens = min(body_type::rows / body.group, args.index.tile_rows);
  body.counter = reinterpret_cast<std::int32_t*>(workspace);
  if (status s = make_tensor_map(body.q_map, "q", args.q, body.group, body.tokens); !s) return s;
  if (status s = make_tensor_map(body.k_map, "k", args.kv.keys, 1, body_type::tile::keys / body_type::tile::segments); !s) return s;
  if (status s = make_tensor_map(body.v_map, "v", args.kv.values, 1, body_type::tile::keys / body_type::tile::segments); !s) return s;
  if (status s = exec.clear(workspace, sizeof(std::int32_t)); !s) return s;
  return exec.launch({min<index_t>(body.tasks(), exec.multiprocessors()), body_type::max_team_size}, body);
}

}  // namespace LACUNA_ARCH_NAMESPACE
}  // namespace lacuna::sm90
