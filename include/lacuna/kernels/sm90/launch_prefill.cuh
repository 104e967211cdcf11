#pragma once
#include <lacuna/exec/cuda_executor.cuh>
#include <lacuna/kernels/sm90/attend_prefill.cuh>
#include <lacuna/kernels/sm90/joining.hpp>

namespace lacuna::sm90 {
inline namespace LACUNA_ARCH_NAMESPACE {

namespace detail {

template <class Args>
using columns_of = compact_columns<std::remove_const_t<typename Args::element>>;

/// `columns` is memory for compact columns; null where the index has none.
template <int Dim, int SegmentKeys, bool Columns, class Args>
status launch_prefill(cuda_executor const& exec, Args const& args, int member_tokens, std::int32_t* counter,
                      [[maybe_unused]] columns_of<Args> const& columns = {}) {
  using body_type = attend_prefill<Args, Dim, SegmentKeys, Columns>;
  body_type body{};
  body.args = args;
  body.group = args.index.heads <= args.shape.kv_heads ? args.shape.group() : 1;
  body.tokens = min(body_type::rows / body.group, args.index.tile_rows);
  body.member_tokens = member_tokens;
  body.counter = counter;
  if (status s = make_tensor_map(body.q_map, "q", args.q, body.group, body.tokens); !s) return s;
  if (status s = make_tensor_map(body.k_map, "k", args.kv.keys, 1, SegmentKeys, body_type::box_panels); !s) return s;
  if (status s = make_tensor_map(body.v_map, "v", args.kv.values, 1, SegmentKeys, body_type::box_panels); !s) return s;
  if constexpr (Columns) {
    body.columns.compact = columns;
    if (status s = make_tensor_map(body.columns.k_map, "columns of k", columns.view(columns.keys), 1, SegmentKeys); !s) return s;
    if (status s = make_tensor_map(body.columns.v_map, "columns of v", columns.view(columns.values), 1, SegmentKeys); !s) return s;
    gather_columns<Args> const gather{args, columns};
    if (status s = exec.launch({gather.blocks(), gather.max_team_size}, gather); !s) return s;
  }
  if (status s = exec.clear(counter, sizeof(std::int32_t)); !s) return s;
  return exec.launch({min<index_t>(body.tasks(), exec.multiprocessors()), body_type::max_team_size}, body);
}

}  // namespace detail

/// Bytes of workspace of launch_prefill: a task counter, and the joined lists where list_joining joins them or the compact columns of an
/// index that has columns. (Lists with columns are never joined.)
inline std::size_t prefill_workspace_bytes(index_layout const& layout, attention_shape const& shape) {
  if (layout.capacity.columns > 0) return 256 + compact_columns<bfloat16>::bytes(layout, shape);
  return 256 + list_joining::of(layout, shape).bytes(layout, shape);
}

/// Runs attend_prefill on the executor's stream over an index of this layout. Refuses what the copy engine cannot address. Indices of
/// granularity 8 to 32 without columns are read in 8-token chunks, all others in runs of 64. Without Columns no kernel for columns is
/// compiled, and the layout has none.
template <int Dim, bool Columns = true, class Args>
status launch_prefill(cuda_executor const& exec, Args args, index_layout const& layout, attention_shape const& planned,
                      std::byte* workspace) {
  auto* const counter = reinterpret_cast<std::int32_t*>(workspace);
  if constexpr (Columns)
    if (layout.capacity.columns > 0)
      return detail::launch_prefill<Dim, 64, true>(exec, args, 1, counter, detail::columns_of<Args>::of(layout, planned, workspace + 256));
  list_joining const joining = list_joining::of(layout, planned);
  int member_tokens = 1;
  if (joining.joins()) {
    sparse_index const joined = make_index(joining.layout(layout, planned), workspace + 256);
    if (status s = joining.run(exec, args.shape, args.lengths, args.index, joined); !s) return s;
    args.index = joined, member_tokens = layout.tile_rows;
  }
  bool const chunks = args.index.granularity >= 8 && args.index.granularity < 64;
  return chunks ? detail::launch_prefill<Dim, 8, false>(exec, args, member_tokens, counter)
                : detail::launch_prefill<Dim, 64, false>(exec, args, member_tokens, counter);
}

}  // namespace LACUNA_ARCH_NAMESPACE
}  // namespace lacuna::sm90
