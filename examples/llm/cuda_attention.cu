#include "cuda_attention.cuh"

#include "attention_calls.hpp"

namespace llm {

template class basic_attention<lacuna::cuda_executor, lacuna::bfloat16>;

}  // namespace llm
