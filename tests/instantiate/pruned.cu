// InfiniteHiP's pruning with the portable bodies: three stages of halving on bf16, and stages of other rules and choosers.
#include "instantiate.cuh"

namespace {

struct infinite_hip_bf16 : lacuna::attention_defaults<lacuna::bfloat16, 128> {
  using pattern = lacuna::pruned<lacuna::chunk_scan<256>, lacuna::chunk_scan<32>, lacuna::chunk_scan<8>>;
  using rope = lacuna::attend_rope;
};
struct pages_f32 : lacuna::attention_defaults<float, 64> {
  using pattern = lacuna::pruned<lacuna::page_bound<64>, lacuna::block_mean<16, lacuna::near_best>,
                                 lacuna::chunk_scan<8, lacuna::midpoint_halving, lacuna::top_mass>>;
};

}  // namespace

LACUNA_INSTANTIATE(infinite_hip_bf16)
LACUNA_INSTANTIATE(pages_f32)
