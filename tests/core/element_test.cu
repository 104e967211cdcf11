#include "support/device.cuh"

#include <doctest/doctest.h>
#include <lacuna/core/element.hpp>

#include <cmath>
#include <numeric>

namespace test_bodies {

using lacuna::index_t;

/// to[i] = T's value of pattern i.
template <class T>
struct read_patterns {
  float* to;
  index_t count;

  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t) const {
    for (index_t i = team.rank(); i < count; i += team.size()) {
      T x;
      x.bits = static_cast<decltype(x.bits)>(i);
      to[i] = lacuna::to_float(x);
    }
  }
};

template <class T>
struct round_floats {
  float const* from;
  T* to;
  index_t count;

  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t) const {
    for (index_t i = team.rank(); i < count; i += team.size()) to[i] = lacuna::from_float<T>(from[i]);
  }
};

}  // namespace test_bodies

namespace {

template <class T, class Exec>
std::vector<float> values_of_patterns(Exec const& exec) {
  int const count = 1 << 8 * sizeof(T);
  test::place<Exec> at{exec};
  float* const to = at.template make<float>(count);
  exec.launch({1, 256}, test_bodies::read_patterns<T>{to, count}).or_throw();
  return at.get(to, count);
}

template <class T, class Exec>
std::vector<int> patterns_of(Exec const& exec, std::vector<float> const& values) {
  test::place<Exec> at{exec};
  T* const to = at.template make<T>(values.size());
  exec.launch({1, 256}, test_bodies::round_floats<T>{at.put(values), to, static_cast<lacuna::index_t>(values.size())}).or_throw();
  std::vector<int> bits;
  for (T const x : at.get(to, values.size())) bits.push_back(x.bits);
  return bits;
}

TEST_CASE_TEMPLATE("elements convert on a GPU as on the host, at every pattern and rounding boundary", T, lacuna::bfloat16, lacuna::float16,
                   lacuna::fp8_e4m3) {
  test::device_stream const stream;
  lacuna::host_executor const host{1};
  auto const values = values_of_patterns<T>(stream.exec()), expected = values_of_patterns<T>(host);
  std::vector<float> boundaries;
  for (std::size_t i = 0; i < values.size(); ++i) {
    REQUIRE((values[i] == expected[i] || (std::isnan(values[i]) && std::isnan(expected[i]))));
    if (!std::isnan(expected[i])) REQUIRE(std::signbit(values[i]) == std::signbit(expected[i]));
    if (i == 0 || !std::isfinite(expected[i]) || !std::isfinite(expected[i - 1])) continue;
    float const middle = expected[i - 1] / 2 + expected[i] / 2;
    for (float const x : {expected[i], middle, std::nextafter(middle, -lacuna::infinity), std::nextafter(middle, lacuna::infinity)})
      boundaries.push_back(x);
  }
  for (float const x : {1e38f, -1e38f, 65520.0f, 464.0f, lacuna::infinity, -lacuna::infinity, std::nanf("")}) boundaries.push_back(x);
  CHECK(patterns_of<T>(stream.exec(), boundaries) == patterns_of<T>(host, boundaries));
}

}  // namespace
