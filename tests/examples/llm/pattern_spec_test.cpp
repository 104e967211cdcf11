#include "pattern_spec.hpp"

#include <doctest/doctest.h>

#include "error.hpp"

using llm::parse_patterns;

TEST_CASE("patterns are read with their amounts and spelt the same way") {
  constexpr char const* list =
      "dense,a_shape:64:1024,vertical_slash:500:500,block_sparse:16,per_head,infinite_hip:3k,infinite_hip:5k:exact,streaming,dense_ntk,"
      "dense_yarn,dense_extend";
  auto const patterns = parse_patterns(list);
  REQUIRE(patterns.size() == 11);
  CHECK(patterns[6] == llm::pattern_spec{.kind = llm::pattern_kind::infinite_hip, .first = 5, .rule = llm::scan_rule::exact});
  CHECK(patterns[1] == llm::pattern_spec{.kind = llm::pattern_kind::a_shape, .first = 64, .second = 1024});
  std::string spelt;
  for (auto const& pattern : patterns) spelt.append(spelt.empty() ? "" : ",").append(llm::text_of(pattern));
  CHECK(spelt == list);
}

TEST_CASE("per_head gives odd heads an A-shape and even heads a vertical-slash") {
  auto const pattern = parse_patterns("per_head")[0];
  CHECK(llm::text_of(llm::pattern_of_head(pattern, 0)) == "vertical_slash:500:500");
  CHECK(llm::text_of(llm::pattern_of_head(pattern, 1)) == "a_shape:64:1024");
  CHECK(llm::text_of(llm::pattern_of_head(parse_patterns("dense")[0], 1)) == "dense");
}

TEST_CASE("wrong patterns are refused with the right form") {
  for (auto const* const wrong :
       {"", "dense,", "sparse", "dense:1", "a_shape:64", "a_shape:64:0", "a_shape:-1:5", "vertical_slash:500:500:1",
        "vertical_slash:1:", "block_sparse:0", "block_sparse:4x", "block_sparse:99999999999", "infinite_hip", "infinite_hip:4k",
        "infinite_hip:3k:best", "infinite_hip:3k:exact:1", "streaming:1"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_patterns(wrong), llm::error);
  }
  CHECK_THROWS_WITH_AS(parse_patterns("a_shape:64"), "pattern 'a_shape:64' has 1 amounts, expected a_shape:SINKS:WINDOW", llm::error);
}
