// The portable bodies over contiguous keys, fp32 and bf16.
#include "instantiate.cuh"

namespace {

struct dense_f32 : lacuna::attention_defaults<float, 64> {};
struct a_shape_bf16 : lacuna::attention_defaults<lacuna::bfloat16, 128> {
  using pattern = lacuna::a_shape;
};

}  // namespace

LACUNA_INSTANTIATE(dense_f32)
LACUNA_INSTANTIATE(a_shape_bf16)
