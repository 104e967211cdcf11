#include <lacuna/core/element.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

namespace {

/// A small float by its definition: sign, exponent, mantissa.
struct small_format {
  int exponent_bits, mantissa_bits, bias;
  bool has_infinity;

  std::uint32_t magnitudes() const { return 1u << (exponent_bits + mantissa_bits); }
  std::uint32_t finite() const { return has_infinity ? ((1u << exponent_bits) - 1) << mantissa_bits : magnitudes() - 1; }

  double decode(std::uint32_t magnitude) const {
    int const exponent = static_cast<int>(magnitude >> mantissa_bits);
    double const fraction = std::ldexp(magnitude & ((1u << mantissa_bits) - 1), -mantissa_bits);
    return exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  }
};

template <class T>
constexpr small_format format_of{8, 7, 127, true};
template <>
constexpr small_format format_of<lacuna::float16>{5, 10, 15, true};
template <>
constexpr small_format format_of<lacuna::fp8_e4m3>{4, 3, 7, false};

template <class T>
T from_bits(std::uint32_t bits) {
  T x{};
  x.bits = static_cast<decltype(x.bits)>(bits);
  return x;
}

template <class T>
constexpr std::uint32_t sign_bit = 1u << (8 * sizeof(T) - 1);

/// Both signs of one conversion.
template <class T>
bool rounds_to(float x, std::uint32_t magnitude) {
  return T{x}.bits == magnitude && T{-x}.bits == (magnitude | sign_bit<T>);
}

TEST_CASE_TEMPLATE("every bit pattern reads as its definition says", T, lacuna::bfloat16, lacuna::float16, lacuna::fp8_e4m3) {
  auto const format = format_of<T>;
  for (std::uint32_t m = 0; m < format.magnitudes(); ++m) {
    float const positive = lacuna::to_float(from_bits<T>(m)), negative = lacuna::to_float(from_bits<T>(m | sign_bit<T>));
    if (m < format.finite()) {
      REQUIRE(positive == format.decode(m));
      REQUIRE(negative == -format.decode(m));
    } else if (format.has_infinity && m == format.finite()) {
      REQUIRE(positive == lacuna::infinity);
      REQUIRE(negative == -lacuna::infinity);
    } else {
      REQUIRE(std::isnan(positive));
      REQUIRE(std::isnan(negative));
    }
    REQUIRE(std::signbit(positive) == false);
    REQUIRE(std::signbit(negative) == true);
  }
}

TEST_CASE_TEMPLATE("floats round to the nearest value, ties to even, at every boundary", T, lacuna::bfloat16, lacuna::float16,
                   lacuna::fp8_e4m3) {
  auto const format = format_of<T>;
  for (std::uint32_t m = 0; m + 1 < format.finite(); ++m) {
    float const exact = static_cast<float>(format.decode(m));
    float const middle = static_cast<float>((format.decode(m) + format.decode(m + 1)) / 2);
    REQUIRE(rounds_to<T>(exact, m));
    REQUIRE(rounds_to<T>(std::nextafter(middle, 0.0f), m));
    REQUIRE(rounds_to<T>(middle, m + m % 2));
    REQUIRE(rounds_to<T>(std::nextafter(middle, lacuna::infinity), m + 1));
  }
}

TEST_CASE_TEMPLATE("past the largest value comes infinity, from half a step on", T, lacuna::bfloat16, lacuna::float16) {
  auto const format = format_of<T>;
  std::uint32_t const largest = format.finite() - 1;
  double const step = format.decode(largest) - format.decode(largest - 1);
  auto const middle = static_cast<float>(format.decode(largest) + step / 2);
  CHECK(rounds_to<T>(std::nextafter(middle, 0.0f), largest));
  CHECK(rounds_to<T>(middle, format.finite()));
  CHECK(rounds_to<T>(std::numeric_limits<float>::max(), format.finite()));
  CHECK(rounds_to<T>(lacuna::infinity, format.finite()));
}

TEST_CASE("fp8 saturates at 448") {
  CHECK(lacuna::to_float(from_bits<lacuna::fp8_e4m3>(0x7e)) == 448);
  for (float const x : {448.0f, 449.0f, 464.0f, 465.0f, 1e30f, lacuna::infinity}) CHECK(rounds_to<lacuna::fp8_e4m3>(x, 0x7e));
}

TEST_CASE_TEMPLATE("NaN of any payload stays NaN with its sign", T, lacuna::bfloat16, lacuna::float16, lacuna::fp8_e4m3) {
  for (std::uint32_t const payload : {0x7f800001u, 0x7f80ffffu, 0x7fc00000u, 0x7fffffffu})
    for (std::uint32_t const sign : {0u, 0x80000000u}) {
      float const back = lacuna::to_float(T{lacuna::bit_cast<float>(payload | sign)});
      CHECK(std::isnan(back));
      CHECK(std::signbit(back) == (sign != 0));
    }
}

TEST_CASE("elements are plain memory") {
  CHECK(sizeof(lacuna::bfloat16) == 2);
  CHECK(sizeof(lacuna::float16) == 2);
  CHECK(sizeof(lacuna::fp8_e4m3) == 1);
  CHECK(std::is_trivial_v<lacuna::bfloat16>);
  CHECK(std::is_trivial_v<lacuna::float16>);
  CHECK(std::is_trivial_v<lacuna::fp8_e4m3>);
}

static_assert(lacuna::to_float(lacuna::bfloat16{1.5f}) == 1.5f && lacuna::to_float(lacuna::fp8_e4m3{-0.25f}) == -0.25f,
              "usable in constants");
static_assert(lacuna::AttentionElement<float> && lacuna::AttentionElement<lacuna::bfloat16> && lacuna::AttentionElement<lacuna::float16>);
static_assert(!lacuna::AttentionElement<lacuna::fp8_e4m3> && !lacuna::AttentionElement<double> && !lacuna::AttentionElement<float const>);

}  // namespace
