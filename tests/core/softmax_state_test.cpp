#include <lacuna/core/softmax_state.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace {

using lacuna::infinity, lacuna::softmax_state;

double lse_of(std::vector<float> const& logits) {
  double peak = -INFINITY, sum = 0;
  for (float const x : logits) peak = std::max<double>(peak, x);
  for (float const x : logits) sum += std::exp(x - peak);
  return logits.empty() ? -INFINITY : peak + std::log(sum);
}

TEST_CASE("the running state equals the log of the sum of exponentials") {
  for (std::vector<float> const& logits :
       {std::vector{0.0f}, {1, 2, 3}, {3, 2, 1}, {-65536}, {-65536, -65535, -70000}, {80, 90, -90}, {65504, 65504}}) {
    softmax_state s;
    for (float const x : logits) s.absorb(x);
    CHECK(s.lse() == doctest::Approx(lse_of(logits)));
  }
}

TEST_CASE("the factors returned rescale what was accumulated before") {
  softmax_state s;
  double acc = 0, expected = 0, weights = 0;
  std::vector<float> const logits{-3, 5, 5, 4, 9};
  for (std::size_t i = 0; i < logits.size(); ++i) {
    acc = acc * s.absorb(logits[i]) + std::exp(logits[i] - s.max) * double(i);
    expected += std::exp(logits[i]) * double(i), weights += std::exp(logits[i]);
  }
  CHECK(acc / s.sum == doctest::Approx(expected / weights));
}

TEST_CASE("nothing seen, or only -inf, is empty: sum 0, lse -inf") {
  softmax_state s;
  CHECK(s.lse() == -infinity);
  CHECK(s.absorb(-infinity) == 1);
  CHECK(s.sum == 0);
  CHECK(s.lse() == -infinity);
  s.absorb(-1e30f);
  CHECK(s.absorb(-infinity) == 1);
  CHECK(s.lse() == -1e30f);
}

TEST_CASE("merging parts equals seeing everything at once") {
  for (auto const& [a, b] : {std::pair{1.0f, 2.0f}, {-65536.0f, -65535.0f}, {100.0f, -100.0f}, {-100.0f, 100.0f}}) {
    auto const w = lacuna::merge_lse(a, b);
    CHECK(w.lse == doctest::Approx(lse_of({a, b})));
    CHECK(w.a + w.b == doctest::Approx(1));
    CHECK(w.a == doctest::Approx(1 / (1 + std::exp(double(b) - a))));
  }
}

TEST_CASE("an empty part weighs nothing, two empty ones stay empty") {
  auto const right = lacuna::merge_lse(-infinity, 3), left = lacuna::merge_lse(3, -infinity),
             none = lacuna::merge_lse(-infinity, -infinity);
  CHECK(right.a == 0);
  CHECK(right.b == 1);
  CHECK(right.lse == 3);
  CHECK(left.a == 1);
  CHECK(left.lse == 3);
  CHECK(none.a == 0);
  CHECK(none.b == 0);
  CHECK(none.lse == -infinity);
}

}  // namespace
