#pragma once
#include <lacuna/cuda.cuh>
#include <lacuna/lacuna.hpp>

/// Everything a prefill or a decode with this configuration launches on a GPU.
#define LACUNA_INSTANTIATE(config)                                                                                  \
  template lacuna::status lacuna::sparse_attention<config>::prefill(                                                \
      lacuna::cuda_executor const&, lacuna::attention_plan const&, lacuna::workspace<lacuna::cuda_executor> const&, \
      lacuna::attention_io<config::element> const&, lacuna::contiguous_kv<config::element> const&) const;
