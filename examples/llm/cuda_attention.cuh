#pragma once

#include <lacuna/cuda.cuh>

#include "attention.hpp"

namespace llm {

using device_tensors = basic_attention_tensors<lacuna::bfloat16>;
using cuda_attention = basic_attention<lacuna::cuda_executor, lacuna::bfloat16>;
extern template class basic_attention<lacuna::cuda_executor, lacuna::bfloat16>;

}  // namespace llm
