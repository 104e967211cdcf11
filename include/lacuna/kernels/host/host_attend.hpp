#pragma once
#include <lacuna/exec/host_executor.hpp>
#include <lacuna/kernels/host/attend_decode.hpp>
#include <lacuna/kernels/host/attend_tiles.hpp>
#include <lacuna/kernels/host/merge_parts.hpp>

namespace lacuna {

/// How the CPU attends: tiles of products for many query rows, or keys streaming past few rows, split over parts.
enum class host_body { tiles, stream };

/// The faster body for these capacities. By capacities, not by lengths, so that what else is in the batch changes nothing.
inline host_body host_body_for(attention_shape const& s, int tile_rows, int lists) {
  constexpr int most_streamed_rows = 16;
  index_t const rows = min<index_t>(tile_rows, s.queries) * (lists <= s.kv_heads ? s.group() : 1);
  return rows <= most_streamed_rows ? host_body::stream : host_body::tiles;
}

/// Attention on the CPU with the best instruction set. Streaming splits rows over `parts`, whose memory is used then (rows * splits *
/// (value_dim + 1) floats); tiles ignore them. Allocates nothing but the threads' scratch on first use. Streaming takes tiles of at most
/// attend_decode::most_rows rows.
template <AttentionElement T, class Kv, class Mask, class Rope>
status host_attend(host_executor const& exec, attend_args<T, Kv, Mask, Rope> const& args, host_body kind, attend_parts const& parts = {},
                   host_isa isa = best_host_isa()) {
  using args_type = attend_args<T, Kv, Mask, Rope>;
  if (kind == host_body::tiles) {
    attend_tiles<args_type> const body{args, isa};
    exec.for_each(body.tasks(), body.scratch_bytes(), body);
    return {};
  }
  auto const body = attend_decode<args_type>::balanced(args, parts, isa, exec.threads());
  exec.for_each(body.tasks(), body.scratch_bytes(), body);
  if (parts.splits == 1) return {};
  merge_parts<args_type> const merge{args, parts};
  exec.for_each(merge.tasks(), merge.scratch_bytes(), merge);
  return {};
}

template <AttentionElement T, class Kv, class Mask, class Rope>
status host_attend(host_executor const& exec, attend_args<T, Kv, Mask, Rope> const& args, attend_parts const& parts = {},
                   host_isa isa = best_host_isa()) {
  return host_attend(exec, args, host_body_for(args.shape, args.index.tile_rows, args.index.heads), parts, isa);
}

}  // namespace lacuna
