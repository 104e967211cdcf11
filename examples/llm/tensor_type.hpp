#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace llm {

/// Storage formats of GGUF tensors that this engine reads; the values are the file format's.
enum class tensor_type : std::uint32_t { f32 = 0, f16 = 1, q4_0 = 2, q4_1 = 3, q8_0 = 8, q4_k = 12, q6_k = 14, bf16 = 30 };

struct tensor_type_facts {
  std::string_view name;
  std::uint32_t block_elements;  // elements that share a block; rows hold whole blocks
  std::uint32_t block_bytes;
};

tensor_type_facts facts_of(tensor_type type);

/// Turns the file's number into a type; throws llm::error naming the type and the tensor if it is not supported.
tensor_type tensor_type_from(std::uint32_t number, std::string_view tensor_name);

}  // namespace llm
