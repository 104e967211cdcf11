#pragma once
#include <lacuna/arch/sm90/mbarrier.cuh>
#include <lacuna/core/element.hpp>
#include <lacuna/core/error.hpp>
#include <lacuna/core/tensor_view.hpp>

#include <cuda.h>
#include <cuda_runtime.h>

namespace lacuna::sm90 {

/// How the copy engine sees a [batch, token, head, dim] tensor of 16-bit elements: coordinates (column in 64, head, token, 64-column
/// panel, batch), each panel landing as rows of 128 bytes under the 128-byte swizzle. A box is `heads` x `tokens` rows of one panel, head
/// fastest.
struct tensor_map {
  CUtensorMap map;

  /// Brings one box to `to` (1024-byte aligned) and counts its bytes at `done`. Rows outside the tensor arrive as zeros.
  __device__ void load(void* to, mbarrier& done, int head, int token, int panel, int batch) const {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(
            shared_address(to)),
        "l"(&map), "r"(shared_address(&done)), "r"(0), "r"(head), "r"(token), "r"(panel), "r"(batch)
        : "memory");
  }
  __device__ void prefetch() const { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }
};

namespace detail {
using encode_tiled = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, cuuint64_t const*, cuuint64_t const*,
                                  cuuint32_t const*, cuuint32_t const*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                  CUtensorMapFloatOOBfill);

/// The driver's encoder, found through the runtime so that nobody links libcuda.
inline encode_tiled find_encoder() {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  auto const code = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
  return code == cudaSuccess && found == cudaDriverEntryPointSuccess ? reinterpret_cast<encode_tiled>(entry) : nullptr;
}
}  // namespace detail

/// Describes a view whose dim is a multiple of 64. Refuses what the copy engine cannot address: a base or strides off 16 bytes.
template <class T>
status make_tensor_map(tensor_map& to, char const* name, tensor_view<T, 4> const& v, int box_heads, int box_tokens, int box_panels = 1) {
  static_assert(sizeof(T) == 2);
  static detail::encode_tiled const encode = detail::find_encoder();
  if (!encode) return {errc::cuda, "the driver has no cuTensorMapEncodeTiled; expected CUDA 12 or newer"};
  if (reinterpret_cast<std::uintptr_t>(v.data) % 16) return refuse(name, " starts off a 16-byte boundary");
  for (int r = 0; r < 3; ++r)
    if (v.stride[r] * sizeof(T) % 16) return refuse(name, " has stride ", v.stride[r], "; expected a multiple of 8 elements");
  auto const at_least_one = [](index_t n) { return static_cast<cuuint64_t>(n > 0 ? n : 1); };
  cuuint64_t const extents[5] = {64, at_least_one(v.extent[2]), at_least_one(v.extent[1]), static_cast<cuuint64_t>(v.extent[3] / 64),
                                 at_least_one(v.extent[0])};
  cuuint64_t const batch_stride = v.stride[0] > 0 ? v.stride[0] : 64;
  cuuint64_t const strides[4] = {v.stride[2] * sizeof(T), v.stride[1] * sizeof(T), 64 * sizeof(T), batch_stride * sizeof(T)};
  cuuint32_t const box[5] = {64, static_cast<cuuint32_t>(box_heads), static_cast<cuuint32_t>(box_tokens),
                             static_cast<cuuint32_t>(box_panels), 1},
                   step[5] = {1, 1, 1, 1, 1};
  bool const half = std::is_same_v<std::remove_const_t<T>, float16>;
  auto const code = encode(&to.map, half ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 5,
                           const_cast<std::remove_const_t<T>*>(v.data), extents, strides, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                           CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (code != CUDA_SUCCESS)
    return {errc::cuda, lacuna::detail::concat("the driver refused a tensor map for ", name, ": CUresult ", static_cast<int>(code))};
  return {};
}

}  // namespace lacuna::sm90
