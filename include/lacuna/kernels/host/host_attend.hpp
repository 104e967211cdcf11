#pragma once
#include <lacuna/exec/host_executor.hpp>
#include <lacuna/kernels/host/attend_decode.hpp>
#include <lacuna/kernels/host/attend_tiles.hpp>
#include <lacuna/kernels/host/merge_parts.hpp>

namespace lacuna {

/// Whether tiles have so few rows that streaming keys past them is faster than tiles of products. By capacities, not by lengths, so that
/// what else is in the batch changes nothing.
template <class Args>
bool host_streams(Args const& args) {
  index_t const rows = min<index_t>(args.index.tile_rows, args.shape.queries) * host_units{args}.group;
  return rows <= attend_decode<Args>::most_rows;
}

/// Attention on the CPU with the best body and instruction set. Rows of few-row tiles are split over `parts`, whose memory is used then
/// (rows * splits * (value_dim + 1) floats); larger tiles ignore it. Allocates nothing but the threads' scratch on first use.
template <AttentionElement T, class Kv, class Mask>
status host_attend(host_executor const& exec, attend_args<T, Kv, Mask> const& args, attend_parts const& parts = {},
                   host_isa isa = best_host_isa()) {
  using args_type = attend_args<T, Kv, Mask>;
  if (!host_streams(args)) {
    attend_tiles<args_type> const body{args, isa};
    exec.for_each(body.tasks(), body.scratch_bytes(), body);
    return {};
  }
  attend_decode<args_type> const body{args, parts, isa};
  exec.for_each(body.tasks(), body.scratch_bytes(), body);
  if (parts.splits == 1) return {};
  merge_parts<args_type> const merge{args, parts};
  exec.for_each(merge.tasks(), merge.scratch_bytes(), merge);
  return {};
}

}  // namespace lacuna
