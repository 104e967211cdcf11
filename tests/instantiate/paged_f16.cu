// Bodies that read pages, f16, with small and uneven head dims.
#include "instantiate.cuh"

namespace {

struct dense_64 : lacuna::attention_defaults<lacuna::float16, 64> {};
struct dense_96 : lacuna::attention_defaults<lacuna::float16, 96> {};
struct dense_80_48 : lacuna::attention_defaults<lacuna::float16, 80, 48> {};

}  // namespace

LACUNA_INSTANTIATE_FOR(dense_64, lacuna::paged_kv<lacuna::float16>)
LACUNA_INSTANTIATE_FOR(dense_96, lacuna::paged_kv<lacuna::float16>)
LACUNA_INSTANTIATE_FOR(dense_80_48, lacuna::paged_kv<lacuna::float16>)
