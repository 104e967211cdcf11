// InfiniteHiP with the portable bodies: three stages of halving on bf16, decode with a cache of lists, recall; stages of other rules and
// choosers on fp32.
#include "instantiate.cuh"

namespace {

struct infinite_hip_bf16 : lacuna::attention_defaults<lacuna::bfloat16, 128> {
  using pattern = lacuna::infinite_hip;
  using rope = lacuna::attend_rope;
};
struct pages_f32 : lacuna::attention_defaults<float, 64> {
  using pattern = lacuna::pruned<lacuna::page_bound<64>, lacuna::block_mean<16, lacuna::near_best>,
                                 lacuna::chunk_scan<8, lacuna::midpoint_halving, lacuna::top_mass>>;
};

using kv_bf16 = lacuna::contiguous_kv<lacuna::bfloat16>;
using cache_bf16 = lacuna::index_cache<lacuna::infinite_hip, lacuna::cuda_executor>;

}  // namespace

LACUNA_INSTANTIATE(infinite_hip_bf16)
LACUNA_INSTANTIATE(pages_f32)
template class lacuna::index_cache<lacuna::infinite_hip, lacuna::cuda_executor>;
template class lacuna::recall_meter<lacuna::cuda_executor>;
template lacuna::status lacuna::sparse_attention<infinite_hip_bf16>::decode(lacuna::cuda_executor const&, lacuna::attention_plan const&,
                                                                            lacuna::workspace<lacuna::cuda_executor> const&,
                                                                            lacuna::attention_io<lacuna::bfloat16> const&, kv_bf16 const&,
                                                                            cache_bf16 const&, int) const;
template lacuna::status lacuna::recall_meter<lacuna::cuda_executor>::add(lacuna::build_inputs<lacuna::bfloat16, kv_bf16> const&,
                                                                         lacuna::sparse_index const&) const;
