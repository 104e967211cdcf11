// The sm_80 bodies beside Hopper's: head dims 64 and 128, f16, and keys of another dim than values.
#include "instantiate.cuh"

namespace {

struct dense_bf16_64 : lacuna::attention_defaults<lacuna::bfloat16, 64> {};
struct dense_f16_128 : lacuna::attention_defaults<lacuna::float16, 128> {};
struct dense_bf16_192 : lacuna::attention_defaults<lacuna::bfloat16, 192, 128> {};
struct dense_bf16_32 : lacuna::attention_defaults<lacuna::bfloat16, 32> {};

}  // namespace

LACUNA_INSTANTIATE(dense_bf16_64)
LACUNA_INSTANTIATE(dense_f16_128)
LACUNA_INSTANTIATE(dense_bf16_192)
LACUNA_INSTANTIATE(dense_bf16_32)
