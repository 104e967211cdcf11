#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor_type.hpp"

namespace llm {

float float_from_half(std::uint16_t bits);
float float_from_bfloat16(std::uint16_t bits);

/// Expands whole blocks to fp32. `out.size()` is a multiple of the type's block and `blocks` holds exactly that many elements.
void dequantize(tensor_type type, std::span<std::byte const> blocks, std::span<float> out);

}  // namespace llm
