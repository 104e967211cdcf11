#include "tensor_type.hpp"

#include <array>
#include <utility>

#include "error.hpp"

namespace llm {
namespace {

constexpr std::array<std::pair<std::uint32_t, std::string_view>, 32> unsupported_names{{
    {6, "Q5_0"},        {7, "Q5_1"},      {9, "Q8_1"},      {10, "Q2_K"},  {11, "Q3_K"},   {13, "Q5_K"},       {15, "Q8_K"},
    {16, "IQ2_XXS"},    {17, "IQ2_XS"},   {18, "IQ3_XXS"},  {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"},      {22, "IQ2_S"},
    {23, "IQ4_XS"},     {24, "I8"},       {25, "I16"},      {26, "I32"},   {27, "I64"},    {28, "F64"},        {29, "IQ1_M"},
    {31, "Q4_0_4_4"},   {32, "Q4_0_4_8"}, {33, "Q4_0_8_8"}, {34, "TQ1_0"}, {35, "TQ2_0"},  {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"},
    {38, "IQ4_NL_8_8"}, {39, "MXFP4"},    {4, "Q4_2"},      {5, "Q4_3"},
}};

std::string unsupported_name(std::uint32_t number) {
  for (auto const& [value, name] : unsupported_names) {
    if (value == number) return std::string(name);
  }
  return "number " + std::to_string(number);
}

}  // namespace

tensor_type_facts facts_of(tensor_type type) {
  switch (type) {
    case tensor_type::f32:
      return {"F32", 1, 4};
    case tensor_type::f16:
      return {"F16", 1, 2};
    case tensor_type::bf16:
      return {"BF16", 1, 2};
    case tensor_type::q4_0:
      return {"Q4_0", 32, 18};
    case tensor_type::q4_1:
      return {"Q4_1", 32, 20};
    case tensor_type::q8_0:
      return {"Q8_0", 32, 34};
    case tensor_type::q4_k:
      return {"Q4_K", 256, 144};
    case tensor_type::q6_k:
      return {"Q6_K", 256, 210};
  }
  throw error("unknown tensor type " + std::to_string(static_cast<std::uint32_t>(type)));
}

tensor_type tensor_type_from(std::uint32_t number, std::string_view tensor_name) {
  switch (static_cast<tensor_type>(number)) {
    case tensor_type::f32:
    case tensor_type::f16:
    case tensor_type::bf16:
    case tensor_type::q4_0:
    case tensor_type::q4_1:
    case tensor_type::q8_0:
    case tensor_type::q4_k:
    case tensor_type::q6_k:
      return static_cast<tensor_type>(number);
  }
  throw error("tensor type " + unsupported_name(number) + " of " + std::string(tensor_name) +
              " is not supported; supported: F32, F16, BF16, Q4_0, Q4_1, Q8_0, Q4_K, Q6_K");
}

}  // namespace llm
