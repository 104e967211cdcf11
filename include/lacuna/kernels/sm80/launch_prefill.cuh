#pragma once
#include <lacuna/exec/cuda_executor.cuh>
#include <lacuna/kernels/sm80/attend_prefill.cuh>
#include <lacuna/kernels/sm80/check_copies.cuh>

namespace lacuna::sm80 {
inline namespace LACUNA_ARCH_NAMESPACE {

namespace detail {

template <class T>
status check_output(tensor_view<T, 4> const& v) {
  if (reinterpret_cast<std::uintptr_t>(v.data) % 4) return refuse("out starts off a 4-byte boundary");
  for (int r = 0; r < 3; ++r)
    if (v.stride[r] % 2) return refuse("out has stride ", v.stride[r], "; expected a multiple of 2 elements");
  return {};
}

template <class Body, class Args>
status launch_prefill(cuda_executor const& exec, Args const& args, int group) {
  Body body{};
  body.args = args;
  body.tiling = {.group = group, .tokens = min(Body::rows / group, args.index.tile_rows)};
  body.group_reciprocal = ceil_div(65536u, static_cast<unsigned>(group));
  return exec.launch({body.blocks(), Body::max_team_size}, body);
}

}  // namespace detail

/// Runs attend_prefill on the executor's stream, 128 rows at a time where lists and dims allow it, else 64. Needs no workspace. Refuses what
/// 16-byte copies cannot address.
template <int KeyDim, int ValueDim, class Args>
status launch_prefill(cuda_executor const& exec, Args const& args) {
  if (status s = check_copies("q", args.q); !s) return s;
  if (status s = check_copies(args.kv); !s) return s;
  if (status s = detail::check_output(args.out); !s) return s;
  using tall = attend_prefill<Args, KeyDim, ValueDim, 128>;
  using low = attend_prefill<Args, KeyDim, ValueDim, 64>;
  static_assert(low::fits);
  int const shared = args.index.heads <= args.shape.kv_heads ? args.shape.group() : 1;
  if constexpr (tall::fits) {
    int const group = shared <= tall::rows ? shared : 1;
    if (min(tall::rows / group, args.index.tile_rows) * group > low::rows) return detail::launch_prefill<tall>(exec, args, group);
  }
  return detail::launch_prefill<low>(exec, args, shared <= low::rows ? shared : 1);
}

}  // namespace LACUNA_ARCH_NAMESPACE
}  // namespace lacuna::sm80
