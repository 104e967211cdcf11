#include "picture.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "error.hpp"
#include "random.hpp"

namespace {

struct fixture {
  static constexpr std::int64_t tokens = 150;
  lacuna::host_executor exec{2};
  std::vector<float> q = random(4), k = random(2), v = random(2), out = q;
  llm::attention attention{exec};

  llm::attention_tensors tensors(std::int64_t queries = tokens) {
    auto const first = tokens - queries;
    return {.q = {q.data() + first * 4 * 32, 1, queries, 4, 32},
            .k = {k.data(), 1, tokens, 2, 32},
            .v = {v.data(), 1, tokens, 2, 32},
            .out = {out.data() + first * 4 * 32, 1, queries, 4, 32}};
  }

 private:
  static std::vector<float> random(int heads) {
    llm::random_source source(static_cast<std::uint64_t>(heads));
    std::vector<float> values(static_cast<std::size_t>(tokens * heads * 32));
    for (auto& value : values) value = static_cast<float>(source.between(0, 2000)) / 1000 - 1;
    return values;
  }
};

llm::pattern_spec pattern(char const* text) { return llm::parse_patterns(text)[0]; }

}  // namespace

TEST_CASE_FIXTURE(fixture, "drawn cells of an A-shape are its definition, for whole prompts and for chunks") {
  for (std::int64_t const queries : {tokens, std::int64_t{37}}) {
    auto const cells = attention.draw(pattern("a_shape:3:20"), tensors(queries), 1, 1);
    REQUIRE(cells.rows == queries);
    REQUIRE(cells.columns == tokens);
    for (std::int64_t query = 0; query < queries; ++query) {
      auto const position = tokens - queries + query;
      for (std::int64_t key = 0; key < tokens; ++key) {
        bool const is_kept = key <= position && (key < 3 || position - key < 20);
        CHECK(cells.share[static_cast<std::size_t>(query * tokens + key)] == (is_kept ? 1 : 0));
      }
    }
  }
}

TEST_CASE_FIXTURE(fixture, "drawn cells add up to the pairs counted, for every pattern") {
  for (auto const* const text : {"dense", "a_shape:3:20", "vertical_slash:10:10", "block_sparse:1", "per_head"}) {
    CAPTURE(text);
    double drawn = 0;
    for (int head = 0; head < 4; ++head) {
      for (float const share : attention.draw(pattern(text), tensors(), head, 1).share) drawn += share;
    }
    CHECK(drawn == static_cast<double>(attention.count(pattern(text), tensors()).visited));
  }
}

TEST_CASE_FIXTURE(fixture, "a cell's weight is the mean of softmax weight times position") {
  auto const weights = llm::attention_cells(exec, tensors(), 2, 1);
  for (std::int64_t const query : {std::int64_t{0}, std::int64_t{70}, tokens - 1}) {
    double sum = 0;
    for (std::int64_t key = 0; key < tokens; ++key) sum += weights[static_cast<std::size_t>(query * tokens + key)];
    CHECK(sum == doctest::Approx(static_cast<double>(query + 1)).epsilon(1e-4));
  }
  auto const coarse = llm::attention_cells(exec, tensors(), 2, 50);
  CHECK(coarse.size() == 9);
}

TEST_CASE_FIXTURE(fixture, "a picture is a PNG of a row for each sparse pattern and a column for each head") {
  llm::picture picture(exec, llm::parse_patterns("dense,a_shape:3:20,per_head"));
  CHECK(picture.png().empty());
  picture.draw(1, tensors());
  CHECK(picture.png().starts_with("\x89PNG"));
}

TEST_CASE("head sizes that are not built are refused with those that are") {
  CHECK_THROWS_WITH_AS(llm::check_head_size(72), "head size is 72, expected one of those built here: 32, 64, 80, 96, 128", llm::error);
}
