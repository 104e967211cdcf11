#pragma once
#include <lacuna/cuda.cuh>
#include <lacuna/lacuna.hpp>

/// Everything a prefill or a decode with this configuration and this reader of keys and values launches on a GPU.
#define LACUNA_INSTANTIATE_FOR(config, reader)                                                                       \
  template lacuna::status lacuna::sparse_attention<config>::prefill(                                                \
      lacuna::cuda_executor const&, lacuna::attention_plan const&, lacuna::workspace<lacuna::cuda_executor> const&, \
      lacuna::attention_io<config::element> const&, reader const&) const;
#define LACUNA_INSTANTIATE(config) LACUNA_INSTANTIATE_FOR(config, lacuna::contiguous_kv<config::element>)
