#include "dequantize.hpp"

#include <bit>
#include <cstring>

#include "error.hpp"

namespace llm {
namespace {

template <class Block, class Expand>
void for_each_block(std::byte const* from, std::span<float> out, std::size_t block_elements, Expand expand) {
  for (std::size_t begin = 0; begin < out.size(); begin += block_elements, from += sizeof(Block)) {
    Block block;
    std::memcpy(&block, from, sizeof block);
    expand(block, out.data() + begin);
  }
}

struct q4_0_block {
  std::uint16_t scale;
  std::uint8_t nibbles[16];  // element j in the low half of byte j, element j + 16 in its high half
};
static_assert(sizeof(q4_0_block) == 18);

struct q4_1_block {
  std::uint16_t scale;
  std::uint16_t minimum;
  std::uint8_t nibbles[16];
};
static_assert(sizeof(q4_1_block) == 20);

struct q8_0_block {
  std::uint16_t scale;
  std::int8_t values[32];
};
static_assert(sizeof(q8_0_block) == 34);

struct q4_k_block {
  std::uint16_t scale;
  std::uint16_t minimum_scale;
  std::uint8_t packed[12];  // eight 6-bit scales and eight 6-bit minima
  std::uint8_t nibbles[128];
};
static_assert(sizeof(q4_k_block) == 144);

struct q6_k_block {
  std::uint8_t low[128];   // low four bits
  std::uint8_t high[64];   // high two bits
  std::int8_t scales[16];  // one for 16 elements
  std::uint16_t scale;
};
static_assert(sizeof(q6_k_block) == 210);

void expand_q4_0(q4_0_block const& block, float* out) {
  float const scale = float_from_half(block.scale);
  for (int j = 0; j < 16; ++j) {
    out[j] = scale * static_cast<float>((block.nibbles[j] & 15) - 8);
    out[j + 16] = scale * static_cast<float>((block.nibbles[j] >> 4) - 8);
  }
}

void expand_q4_1(q4_1_block const& block, float* out) {
  float const scale = float_from_half(block.scale);
  float const minimum = float_from_half(block.minimum);
  for (int j = 0; j < 16; ++j) {
    out[j] = scale * static_cast<float>(block.nibbles[j] & 15) + minimum;
    out[j + 16] = scale * static_cast<float>(block.nibbles[j] >> 4) + minimum;
  }
}

void expand_q8_0(q8_0_block const& block, float* out) {
  float const scale = float_from_half(block.scale);
  for (int j = 0; j < 32; ++j) out[j] = scale * static_cast<float>(block.values[j]);
}

struct scale_and_minimum {
  int scale;
  int minimum;
};

/// Sub-block `j` of 8: the first four lie in the low six bits of bytes j and j + 4, the others are split over three places.
scale_and_minimum unpack_q4_k(std::uint8_t const* packed, int j) {
  if (j < 4) return {packed[j] & 63, packed[j + 4] & 63};
  return {(packed[j + 4] & 15) | ((packed[j - 4] >> 6) << 4), (packed[j + 4] >> 4) | ((packed[j] >> 6) << 4)};
}

void expand_q4_k(q4_k_block const& block, float* out) {
  float const scale = float_from_half(block.scale);
  float const minimum_scale = float_from_half(block.minimum_scale);
  for (int j = 0; j < 8; ++j) {
    auto const sub = unpack_q4_k(block.packed, j);
    float const step = scale * static_cast<float>(sub.scale);
    float const minimum = minimum_scale * static_cast<float>(sub.minimum);
    int const shift = 4 * (j % 2);  // two sub-blocks share 32 bytes: low halves, then high halves
    std::uint8_t const* const nibbles = block.nibbles + j / 2 * 32;
    for (int i = 0; i < 32; ++i) out[j * 32 + i] = step * static_cast<float>((nibbles[i] >> shift) & 15) - minimum;
  }
}

void expand_q6_k(q6_k_block const& block, float* out) {
  float const scale = float_from_half(block.scale);
  for (int half = 0; half < 2; ++half) {
    std::uint8_t const* const low = block.low + half * 64;
    std::uint8_t const* const high = block.high + half * 32;
    for (int quarter = 0; quarter < 4; ++quarter) {
      int const shift = 4 * (quarter / 2);
      std::uint8_t const* const nibbles = low + quarter % 2 * 32;
      for (int i = 0; i < 32; ++i) {
        int const value = (((nibbles[i] >> shift) & 15) | (((high[i] >> (2 * quarter)) & 3) << 4)) - 32;
        float const step = scale * static_cast<float>(block.scales[half * 8 + quarter * 2 + i / 16]);
        out[half * 128 + quarter * 32 + i] = step * static_cast<float>(value);
      }
    }
  }
}

}  // namespace

float float_from_half(std::uint16_t bits) {
  std::uint32_t const sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  std::uint32_t const exponent = (bits >> 10) & 31U;
  std::uint32_t const mantissa = bits & 1023U;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  float const magnitude = static_cast<float>(mantissa) * 0x1p-24F;
  return sign != 0 ? -magnitude : magnitude;
}

float float_from_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

void dequantize(tensor_type type, std::span<std::byte const> blocks, std::span<float> out) {
  auto const facts = facts_of(type);
  if (out.size() % facts.block_elements != 0 || blocks.size() != out.size() / facts.block_elements * facts.block_bytes) {
    throw error("dequantize: " + std::to_string(blocks.size()) + " bytes of " + std::string(facts.name) + " do not hold " +
                std::to_string(out.size()) + " elements");
  }
  std::byte const* const from = blocks.data();
  auto const size = static_cast<std::size_t>(facts.block_elements);
  switch (type) {
    case tensor_type::f32:
      if (!out.empty()) std::memcpy(out.data(), from, blocks.size());
      return;
    case tensor_type::f16:
      return for_each_block<std::uint16_t>(from, out, size, [](auto half, float* to) { *to = float_from_half(half); });
    case tensor_type::bf16:
      return for_each_block<std::uint16_t>(from, out, size, [](auto half, float* to) { *to = float_from_bfloat16(half); });
    case tensor_type::q4_0:
      return for_each_block<q4_0_block>(from, out, size, expand_q4_0);
    case tensor_type::q4_1:
      return for_each_block<q4_1_block>(from, out, size, expand_q4_1);
    case tensor_type::q8_0:
      return for_each_block<q8_0_block>(from, out, size, expand_q8_0);
    case tensor_type::q4_k:
      return for_each_block<q4_k_block>(from, out, size, expand_q4_k);
    case tensor_type::q6_k:
      return for_each_block<q6_k_block>(from, out, size, expand_q6_k);
  }
}

}  // namespace llm
