// The portable bodies over contiguous keys, fp16 with values narrower than keys.
#include "instantiate.cuh"

namespace {

struct dense_f16 : lacuna::attention_defaults<lacuna::float16, 192, 128> {};

}  // namespace

LACUNA_INSTANTIATE(dense_f16)
