#include "dequantize.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "error.hpp"

// Blocks are written by hand from the format's description; 0x3C00 is 1, 0x4000 is 2, 0x3800 is 0.5, 0xBC00 is -1 in fp16.

namespace {

std::vector<std::byte> bytes_of(std::vector<int> const& values) {
  std::vector<std::byte> bytes;
  for (int const value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

std::vector<float> expand(llm::tensor_type type, std::vector<std::byte> const& blocks, std::size_t elements) {
  std::vector<float> out(elements, -1000);
  llm::dequantize(type, blocks, out);
  return out;
}

}  // namespace

TEST_CASE("half precision covers normal, subnormal and special values") {
  CHECK(llm::float_from_half(0x3C00) == 1);
  CHECK(llm::float_from_half(0xC500) == -5);
  CHECK(llm::float_from_half(0x0001) == std::ldexp(1.0F, -24));
  CHECK(llm::float_from_half(0x8001) == -std::ldexp(1.0F, -24));
  CHECK(llm::float_from_half(0x7BFF) == 65504);
  CHECK(std::isinf(llm::float_from_half(0x7C00)));
  CHECK(std::isnan(llm::float_from_half(0x7E00)));
  CHECK(std::signbit(llm::float_from_half(0x8000)));
}

TEST_CASE("bfloat16 is the upper half of a float") {
  CHECK(llm::float_from_bfloat16(0x3F80) == 1);
  CHECK(llm::float_from_bfloat16(0xC0A0) == -5);
}

TEST_CASE("F32, F16 and BF16 are read in order") {
  CHECK(expand(llm::tensor_type::f32, bytes_of({0, 0, 128, 63, 0, 0, 0, 192}), 2) == std::vector<float>{1, -2});
  CHECK(expand(llm::tensor_type::f16, bytes_of({0, 0x3C, 0, 0xBC}), 2) == std::vector<float>{1, -1});
  CHECK(expand(llm::tensor_type::bf16, bytes_of({0x80, 0x3F, 0xA0, 0xC0}), 2) == std::vector<float>{1, -5});
}

TEST_CASE("Q4_0 subtracts 8 and keeps the low halves first") {
  std::vector<int> block{0, 0x38};  // scale 0.5
  for (int j = 0; j < 16; ++j) block.push_back(j | ((15 - j) << 4));
  auto const out = expand(llm::tensor_type::q4_0, bytes_of(block), 32);
  for (int j = 0; j < 16; ++j) {
    CHECK(out[static_cast<std::size_t>(j)] == 0.5F * static_cast<float>(j - 8));
    CHECK(out[static_cast<std::size_t>(j + 16)] == 0.5F * static_cast<float>(7 - j));
  }
}

TEST_CASE("Q4_1 adds a minimum") {
  std::vector<int> block{0, 0x40, 0, 0xBC};  // scale 2, minimum -1
  for (int j = 0; j < 16; ++j) block.push_back(j | (3 << 4));
  auto const out = expand(llm::tensor_type::q4_1, bytes_of(block), 32);
  for (int j = 0; j < 16; ++j) {
    CHECK(out[static_cast<std::size_t>(j)] == 2.0F * static_cast<float>(j) - 1);
    CHECK(out[static_cast<std::size_t>(j + 16)] == 5);
  }
}

TEST_CASE("Q8_0 is a scale and signed bytes, block after block") {
  std::vector<int> blocks{0, 0x38};
  for (int j = 0; j < 32; ++j) blocks.push_back(j - 16);
  blocks.insert(blocks.end(), {0, 0x40});
  for (int j = 0; j < 32; ++j) blocks.push_back(127);
  auto const out = expand(llm::tensor_type::q8_0, bytes_of(blocks), 64);
  CHECK(out[0] == -8);
  CHECK(out[31] == 7.5F);
  CHECK(out[32] == 254);
  CHECK(out[63] == 254);
}

TEST_CASE("Q4_K unpacks eight 6-bit scales and minima") {
  std::vector<int> block{0, 0x3C, 0, 0x38};  // scale 1, scale of the minima 0.5
  // Scales 1 2 3 4 | 21 38 55 8 and minima 8 7 6 5 | 4 19 34 49: the later four give their low bits to bytes 8..11, their upper two to
  // 0..7.
  int const scales[] = {1, 2, 3, 4, 21, 38, 55, 8};
  int const minima[] = {8, 7, 6, 5, 4, 19, 34, 49};
  for (int j = 0; j < 4; ++j) block.push_back(scales[j] | ((scales[j + 4] >> 4) << 6));
  for (int j = 0; j < 4; ++j) block.push_back(minima[j] | ((minima[j + 4] >> 4) << 6));
  for (int j = 0; j < 4; ++j) block.push_back((scales[j + 4] & 15) | ((minima[j + 4] & 15) << 4));
  for (int byte = 0; byte < 128; ++byte) block.push_back((byte % 16) | ((15 - byte % 16) << 4));
  auto const out = expand(llm::tensor_type::q4_k, bytes_of(block), 256);
  for (int j = 0; j < 8; ++j) {
    for (int i = 0; i < 32; ++i) {
      CAPTURE(j);
      CAPTURE(i);
      int const nibble = j % 2 == 0 ? i % 16 : 15 - i % 16;
      CHECK(out[static_cast<std::size_t>(j * 32 + i)] == static_cast<float>(scales[j] * nibble) - 0.5F * static_cast<float>(minima[j]));
    }
  }
}

TEST_CASE("Q6_K joins four low and two high bits and has a scale for 16 elements") {
  std::vector<int> block(210);
  auto const value = [](int element) { return (element * 7 + element / 64) % 64; };  // 0..63, stored
  for (int element = 0; element < 256; ++element) {
    int const half = element / 128, quarter = element % 128 / 32, i = element % 32;
    block[static_cast<std::size_t>(half * 64 + quarter % 2 * 32 + i)] |= (value(element) & 15) << (quarter / 2 * 4);
    block[static_cast<std::size_t>(128 + half * 32 + i)] |= (value(element) >> 4) << (2 * quarter);
  }
  for (int j = 0; j < 16; ++j) block[static_cast<std::size_t>(192 + j)] = j % 2 == 0 ? j + 1 : -j;
  block[208] = 0;
  block[209] = 0x38;  // scale 0.5
  auto const out = expand(llm::tensor_type::q6_k, bytes_of(block), 256);
  for (int element = 0; element < 256; ++element) {
    CAPTURE(element);
    int const j = element / 16;
    int const scale = j % 2 == 0 ? j + 1 : -j;
    CHECK(out[static_cast<std::size_t>(element)] == 0.5F * static_cast<float>(scale) * static_cast<float>(value(element) - 32));
  }
}

TEST_CASE("sizes that do not agree are refused") {
  std::vector<float> out(32);
  std::vector<std::byte> const blocks(17);
  CHECK_THROWS_AS(llm::dequantize(llm::tensor_type::q4_0, blocks, out), llm::error);
  CHECK_THROWS_AS(llm::dequantize(llm::tensor_type::q4_0, std::vector<std::byte>(18), std::span(out).first(31)), llm::error);
}
