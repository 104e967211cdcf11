// Bodies that read pages, bf16, with the usual and the largest head dim.
#include "instantiate.cuh"

namespace {

struct dense_128 : lacuna::attention_defaults<lacuna::bfloat16, 128> {};
struct dense_256 : lacuna::attention_defaults<lacuna::bfloat16, 256> {};

}  // namespace

LACUNA_INSTANTIATE_FOR(dense_128, lacuna::paged_kv<lacuna::bfloat16>)
LACUNA_INSTANTIATE_FOR(dense_256, lacuna::paged_kv<lacuna::bfloat16>)
