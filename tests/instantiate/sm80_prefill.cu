// The tensor-core bodies of sm_80 where no Hopper body is: head dims 96 and 256.
#include "instantiate.cuh"

namespace {

struct dense_f16_96 : lacuna::attention_defaults<lacuna::float16, 96> {};
struct dense_bf16_256 : lacuna::attention_defaults<lacuna::bfloat16, 256> {};

}  // namespace

LACUNA_INSTANTIATE(dense_f16_96)
LACUNA_INSTANTIATE(dense_bf16_256)
