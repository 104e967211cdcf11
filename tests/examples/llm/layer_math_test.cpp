#include "layer_math.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "matrix_product.hpp"
#include "random.hpp"

namespace {

std::vector<float> random_floats(std::size_t size, float range, std::uint64_t seed) {
  llm::random_source random(seed);
  std::vector<float> values(size);
  for (auto& value : values) value = (static_cast<float>(random.between(0, 1 << 20)) / (1 << 19) - 1) * range;
  return values;
}

}  // namespace

TEST_CASE("rms_norm scales to a root mean square of one, at any width") {
  for (std::size_t const width : {1U, 15U, 16U, 17U, 100U}) {
    auto const x = random_floats(width, 3, width);
    std::vector<float> const weight(width, 2);
    std::vector<float> out(width);
    llm::rms_norm(x, weight, 0, out);
    double sum = 0;
    for (float const value : out) sum += value * value;
    CHECK(std::sqrt(sum / static_cast<double>(width)) == doctest::Approx(2).epsilon(1e-5));
  }
}

TEST_CASE("swiglu equals its definition over the whole range") {
  auto gate = random_floats(1003, 100, 1);
  gate[0] = 0, gate[1] = 1e4F, gate[2] = -1e4F;
  auto const up = random_floats(1003, 2, 2);
  auto const before = gate;
  llm::swiglu(gate, up);
  for (std::size_t i = 0; i < gate.size(); ++i) {
    double const x = before[i];
    CHECK(gate[i] == doctest::Approx(x / (1 + std::exp(-x)) * static_cast<double>(up[i])).epsilon(1e-6));
  }
}

TEST_CASE("rope turns the right pairs by exact angles, far out too") {
  constexpr int dim = 8;
  constexpr std::int64_t position = 100'003;
  for (auto const pairs : {llm::rope_pairs::neighbours, llm::rope_pairs::halves}) {
    llm::rope_table const table(position + 1, dim, 1e6, pairs);
    auto const before = random_floats(dim, 1, 3);
    auto head = before;
    table.rotate(position, head.data());
    for (int i = 0; i < dim / 2; ++i) {
      auto const a = static_cast<std::size_t>(pairs == llm::rope_pairs::neighbours ? 2 * i : i);
      auto const b = static_cast<std::size_t>(pairs == llm::rope_pairs::neighbours ? 2 * i + 1 : i + dim / 2);
      double const angle = static_cast<double>(position) * std::pow(1e6, -2.0 * i / dim);
      CHECK(head[a] == doctest::Approx(before[a] * std::cos(angle) - before[b] * std::sin(angle)).epsilon(1e-6));
      CHECK(head[b] == doctest::Approx(before[a] * std::sin(angle) + before[b] * std::cos(angle)).epsilon(1e-6));
    }
  }
}

TEST_CASE("cross_entropy does not overflow") {
  std::vector<float> const logits{1000, 999, -1000};
  CHECK(llm::cross_entropy(logits, 0) == doctest::Approx(std::log(1 + std::exp(-1.0))));
  CHECK(llm::cross_entropy(logits, 2) == doctest::Approx(2000 + std::log(1 + std::exp(-1.0))));
}

TEST_CASE("the largest logit with the lower index wins") { CHECK(llm::index_of_largest(std::vector<float>{1, 3, 3}) == 1); }

TEST_CASE("products equal plain loops, on one thread and split by columns, for one row and many") {
  constexpr std::int64_t outer = 150, inner = 37;
  auto const weights = random_floats(outer * inner, 1, 4);
  llm::matrix w{.data = llm::float_buffer(outer * inner), .outer = outer, .inner = inner};
  std::copy(weights.begin(), weights.end(), w.data.data());
  lacuna::host_executor const exec(2);
  for (std::int64_t const rows : {1, 5}) {
    for (bool const is_split : {false, true}) {
      auto const x = random_floats(static_cast<std::size_t>(rows) * (inner + 3), 1, 5);
      std::vector<float> y(static_cast<std::size_t>(rows) * outer, 1);
      llm::matrix_product const product{
          .x = {x.data(), inner + 3}, .rows = rows, .w = w, .y = {y.data(), outer}, .result = llm::product_result::add};
      if (is_split) {
        llm::multiply_by_columns(product, exec);
      } else {
        llm::multiply(product);
      }
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t column = 0; column < outer; ++column) {
          double expected = 1;
          for (std::int64_t i = 0; i < inner; ++i) expected += static_cast<double>(x[row * (inner + 3) + i]) * weights[column * inner + i];
          CHECK(y[row * outer + column] == doctest::Approx(expected).epsilon(1e-4));
        }
      }
    }
  }
}
