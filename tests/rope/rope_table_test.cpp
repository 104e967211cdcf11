#include <lacuna/rope/rope_frequencies.hpp>
#include <lacuna/rope/rotate.hpp>

#include <doctest/doctest.h>

#include <random>

namespace {

using lacuna::index_t;
using lacuna::rope_pairing;

lacuna::serial_team team{nullptr};

TEST_CASE("angles are right to fp32 at position 3M, where an fp32 product errs by hundredths") {
  auto const radians = lacuna::rope_frequencies(5e5, 128);
  double worst = 0, worst_fp32 = 0;
  for (index_t const position : {0, 1, 8191, 131'071, 1'000'000, 2'999'999})
    for (double const each : radians) {
      auto const angle = lacuna::rope_angle::at(position, each);
      long double const exact = std::fmod(static_cast<long double>(position) * each, 2 * std::acos(-1.0L));
      worst = std::max<double>(worst, std::abs(angle.cosine - std::cos(exact)));
      worst = std::max<double>(worst, std::abs(angle.sine - std::sin(exact)));
      worst_fp32 = std::max<double>(worst_fp32, std::abs(std::cos(float(position) * float(each)) - std::cos(exact)));
    }
  CHECK(worst < 6.1e-8);  // half a unit in the last place of 1, and what the reduction loses
  CHECK(worst_fp32 > 0.02);
}

TEST_CASE_TEMPLATE_DEFINE("both pairings turn what they pair", T, pairings) {
  for (auto const pairing : {rope_pairing::halves, rope_pairing::neighbours}) {
    lacuna::host_rope_table const table{{0.5, 0.01}, 20, pairing};
    float const x[6] = {1, 2, 3, 4, 5, 6};  // two dims do not turn
    T row[6];
    for (int d = 0; d < 6; ++d) row[d] = T(x[d]);
    float out[6];
    lacuna::rotate_row(team, table.view(), 7, row, 6, out);
    int const a0 = 0, b0 = pairing == rope_pairing::halves ? 2 : 1, a1 = pairing == rope_pairing::halves ? 1 : 2, b1 = 3;
    CHECK(out[a0] == doctest::Approx(x[a0] * std::cos(3.5) - x[b0] * std::sin(3.5)));
    CHECK(out[b0] == doctest::Approx(x[a0] * std::sin(3.5) + x[b0] * std::cos(3.5)));
    CHECK(out[a1] == doctest::Approx(x[a1] * std::cos(0.07) - x[b1] * std::sin(0.07)));
    CHECK(out[b1] == doctest::Approx(x[a1] * std::sin(0.07) + x[b1] * std::cos(0.07)));
    CHECK(out[4] == 5);
    CHECK(out[5] == 6);
  }
}
TEST_CASE_TEMPLATE_INVOKE(pairings, float, lacuna::bfloat16, lacuna::float16);

TEST_CASE("products depend on the difference of positions alone") {
  lacuna::host_rope_table const table{lacuna::rope_frequencies(1e4, 8), 400};
  std::mt19937 engine{1};
  std::normal_distribution<float> normal;
  for (int round = 0; round < 50; ++round) {
    float q[8], k[8], turned[8], shifted[8];
    for (int d = 0; d < 8; ++d) q[d] = normal(engine), k[d] = normal(engine);
    index_t const p = 100 + engine() % 100, t = engine() % 100;
    lacuna::rotate_row(team, table.view(), p, q, 8, turned);
    lacuna::rotate_row(team, table.view(), p - t, q, 8, shifted);
    CHECK(lacuna::rotated_dot(table.view(), t, turned, k, 8) == doctest::Approx(lacuna::plain_dot(shifted, k, 8)).epsilon(1e-5));
  }
}

TEST_CASE("NTK scaling turns the slowest pair as far over the whole text as before, YaRN keeps fast pairs and slows slow ones") {
  auto const plain = lacuna::rope_frequencies(1e4, 64);
  auto const ntk = lacuna::rope_frequencies(lacuna::ntk_base(1e4, 4, 64), 64);
  CHECK(ntk.front() == plain.front());
  CHECK(ntk.back() == doctest::Approx(plain.back() / 4));
  lacuna::yarn_scaling const yarn{.base = 1e4, .stretch = 4, .trained_tokens = 4096};
  auto const slowed = yarn.frequencies(64);
  CHECK(slowed.front() == plain.front());
  CHECK(slowed.back() == doctest::Approx(plain.back() / 4));
  for (std::size_t i = 0; i < slowed.size(); ++i) CHECK(slowed[i] <= plain[i]);
  CHECK(yarn.logit_factor() == doctest::Approx(std::pow(0.1 * std::log(4.0) + 1, 2)));
  CHECK(lacuna::yarn_scaling{.base = 1e4, .stretch = 1, .trained_tokens = 4096}.logit_factor() == 1);
}

TEST_CASE("a table that is too short is refused with both numbers") {
  lacuna::host_rope_table const table{lacuna::rope_frequencies(1e4, 8), 100};
  CHECK_THROWS_WITH_AS(lacuna::check_rope_table("scan rope", table.view(), 8, 101),
                       "scan rope has a table of 100 positions; this style reaches 101", lacuna::invalid_argument);
  CHECK_THROWS_WITH_AS(lacuna::check_rope_table("scan rope", table.view(), 4, 10),
                       "scan rope turns 8 dims; expected an even number from 2 to key_dim 4", lacuna::invalid_argument);
  CHECK_THROWS_AS(lacuna::check_rope_table("scan rope", {}, 8, 1), lacuna::invalid_argument);
}

}  // namespace
