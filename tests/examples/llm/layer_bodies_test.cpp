#include "layer_bodies.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "layer_math.hpp"
#include "random.hpp"
#include "support/place.hpp"

namespace {

std::vector<float> random_floats(std::size_t size, float range, std::uint64_t seed) {
  llm::random_source random(seed);
  std::vector<float> values(size);
  for (auto& value : values) value = (static_cast<float>(random.between(0, 1 << 20)) / (1 << 19) - 1) * range;
  return values;
}

/// Runs a body on the host's team of one, then on teams of threads of odd and even sizes; check() looks at the output after each.
template <class Body, class Check>
void run_everywhere(Body const& body, Check const& check) {
  lacuna::host_executor{2}.launch({body.blocks(), 1}, body).or_throw();
  check();
  for (int const team : {2, 5, 7}) {
    test::threaded_executor{team}.launch({body.blocks(), team}, body).or_throw();
    check();
  }
}

/// Overwrites before each run, so that what is not written shows.
template <class T>
void poison(std::vector<T>& values) {
  for (auto& value : values) value = lacuna::from_float<T>(std::nanf(""));
}

}  // namespace

TEST_CASE("convert_elements rounds every element, over more than one block") {
  auto const from = random_floats(5000, 100, 1);
  std::vector<lacuna::bfloat16> to(from.size());
  run_everywhere(llm::convert_elements<float, lacuna::bfloat16>{from.data(), to.data(), 5000}, [&] {
    for (std::size_t i = 0; i < from.size(); ++i) CHECK(to[i].bits == lacuna::bfloat16(from[i]).bits);
    poison(to);
  });
}

TEST_CASE("embed_rows takes the rows of the table that the ids name") {
  constexpr int width = 33;
  auto const table = random_floats(7 * width, 1, 2);
  std::vector<std::int32_t> const ids{6, 0, 3, 3};
  std::vector<float> out(ids.size() * width);
  run_everywhere(llm::embed_rows<float>{ids.data(), table.data(), 4, width, out.data()}, [&] {
    for (std::size_t i = 0; i < out.size(); ++i) CHECK(out[i] == table[static_cast<std::size_t>(ids[i / width]) * width + i % width]);
    poison(out);
  });
}

TEST_CASE("normalise_rows equals rms_norm row by row") {
  for (int const width : {1, 3, 64, 100}) {
    auto const size = static_cast<std::size_t>(width);
    auto const x = random_floats(3 * size, 3, size);
    auto const weight = random_floats(size, 2, 9);
    std::vector<float> out(x.size()), expected(x.size());
    for (std::size_t row = 0; row < 3; ++row)
      llm::rms_norm(std::span(x).subspan(row * size, size), weight, 1e-5F, std::span(expected).subspan(row * size, size));
    run_everywhere(llm::normalise_rows<float>{x.data(), weight.data(), 1e-5F, 3, width, out.data()}, [&] {
      for (std::size_t i = 0; i < out.size(); ++i) CHECK(out[i] == doctest::Approx(expected[i]).epsilon(1e-5));
      poison(out);
    });
  }
}

TEST_CASE("rotate_and_store adds the bias, turns queries and keys like rope_table, and leaves values") {
  constexpr int query_heads = 3, kv_heads = 1, dim = 8, heads = query_heads + 2 * kv_heads, wide = heads * dim;
  constexpr std::int64_t rows = 5, position = 70, capacity = 80;
  auto const qkv = random_floats(rows * wide, 1, 3);
  auto const bias = random_floats(wide, 1, 4);
  for (auto const pairs : {llm::rope_pairs::neighbours, llm::rope_pairs::halves}) {
    for (bool const has_bias : {false, true}) {
      CAPTURE(has_bias);
      llm::rope_table const table(capacity, dim, 1e4, pairs);
      std::vector<float> q(rows * query_heads * dim), k(capacity * dim), v(capacity * dim);
      llm::rotate_and_store<float> const body{.qkv = qkv.data(),
                                              .bias = has_bias ? bias.data() : nullptr,
                                              .cosines = table.cosines().data(),
                                              .sines = table.sines().data(),
                                              .pairs = pairs,
                                              .position = position,
                                              .rows = rows,
                                              .query_heads = query_heads,
                                              .kv_heads = kv_heads,
                                              .head_size = dim,
                                              .q = q.data(),
                                              .keys = {k.data(), 1, capacity, kv_heads, dim},
                                              .values = {v.data(), 1, capacity, kv_heads, dim}};
      poison(k);
      run_everywhere(body, [&] {
        for (std::int64_t row = 0; row < rows; ++row) {
          std::vector<float> expected(qkv.begin() + row * wide, qkv.begin() + (row + 1) * wide);
          for (int i = 0; has_bias && i < wide; ++i) expected[static_cast<std::size_t>(i)] += bias[static_cast<std::size_t>(i)];
          for (int head = 0; head < query_heads + kv_heads; ++head) table.rotate(position + row, expected.data() + head * dim);
          for (int i = 0; i < query_heads * dim; ++i) {
            CHECK(q[static_cast<std::size_t>(row * query_heads * dim + i)] == doctest::Approx(expected[static_cast<std::size_t>(i)]));
          }
          for (int i = 0; i < dim; ++i) {
            auto const at = static_cast<std::size_t>((position + row) * dim + i);
            CHECK(k[at] == doctest::Approx(expected[static_cast<std::size_t>(query_heads * dim + i)]));
            CHECK(v[at] == expected[static_cast<std::size_t>((query_heads + 1) * dim + i)]);
          }
        }
        CHECK(std::isnan(k[(position - 1) * dim]));
        CHECK(std::isnan(k[(position + rows) * dim]));
        poison(q), poison(k), poison(v);
      });
    }
  }
}

TEST_CASE("gate_rows equals swiglu, far from zero too") {
  constexpr int width = 37;
  auto gate_up = random_floats(2 * 2 * width, 100, 5);
  gate_up[0] = 0, gate_up[1] = 1e4F, gate_up[2] = -1e4F;
  std::vector<float> out(2 * width), expected;
  for (std::size_t row = 0; row < 2; ++row) {
    auto gate = std::vector<float>(gate_up.begin() + static_cast<int>(row) * 2 * width,
                                   gate_up.begin() + static_cast<int>(row) * 2 * width + width);
    llm::swiglu(gate, std::span(gate_up).subspan(row * 2 * width + width, width));
    expected.insert(expected.end(), gate.begin(), gate.end());
  }
  run_everywhere(llm::gate_rows<float>{gate_up.data(), 2, width, out.data()}, [&] {
    for (std::size_t i = 0; i < out.size(); ++i) CHECK(out[i] == doctest::Approx(expected[i]).epsilon(1e-6));
    poison(out);
  });
}

TEST_CASE("score_rows gives the first of the largest logits and the loss of the target") {
  constexpr std::int64_t rows = 3, vocabulary = 1001;
  auto logits = random_floats(rows * vocabulary, 20, 6);
  logits[17] = logits[900] = 21;
  logits[vocabulary] = 500;  // far above all others: exp of the rest is 0
  std::vector<std::int32_t> const targets{900, 1, 1000};
  std::vector<llm::scored_row> out(rows);
  run_everywhere(llm::score_rows{logits.data(), targets.data(), rows, vocabulary, out.data()}, [&] {
    for (std::size_t row = 0; row < rows; ++row) {
      CAPTURE(row);
      auto const of = std::span(logits).subspan(row * vocabulary, vocabulary);
      CHECK(out[row].next == llm::index_of_largest(of));
      CHECK(out[row].loss == doctest::Approx(llm::cross_entropy(of, targets[row])).epsilon(1e-5));
      out[row] = {-1, std::nanf("")};
    }
  });
  run_everywhere(llm::score_rows{logits.data(), nullptr, rows, vocabulary, out.data()}, [&] {
    CHECK(out[0].next == 17);
    out[0].next = -1;
  });
}

TEST_CASE("sum_squares adds up over all parts, also where parts outnumber elements") {
  auto const a = random_floats(1000, 1, 7);
  auto const b = random_floats(1000, 1, 8);
  for (std::int64_t const parts : {1, 7, 300}) {
    for (std::int64_t const count : {1, 100, 1000}) {
      double difference = 0, reference = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
        double const x = a[i], y = b[i];
        difference += (x - y) * (x - y), reference += y * y;
      }
      std::vector<llm::sum_squares<float>::sums> out(static_cast<std::size_t>(parts));
      run_everywhere(llm::sum_squares<float>{a.data(), b.data(), count, parts, out.data()}, [&] {
        llm::sum_squares<float>::sums sum{};
        for (auto& part : out) sum = sum + part, part = {std::nan(""), std::nan("")};
        CHECK(sum.difference == doctest::Approx(difference).epsilon(1e-12));
        CHECK(sum.reference == doctest::Approx(reference).epsilon(1e-12));
      });
    }
  }
}
