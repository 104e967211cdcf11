#include "report.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "json_reader.hpp"

namespace {

llm::report sample() {
  llm::report results{.model = "a \"quoted\"\nname", .backend = "host", .rows = {}};
  results.rows.push_back({.pattern = "vertical_slash:500:500",
                          .task = "passkey",
                          .length = 4096,
                          .passkeys = 10,
                          .right = 9,
                          .visited_share = 0.48,
                          .output_error = 0.01,
                          .nll = 2.435,
                          .prefill_seconds = 8.25,
                          .decode_seconds = 0.03});
  results.rows.push_back({.pattern = "dense", .task = "kv", .length = 16, .nll = std::numeric_limits<double>::quiet_NaN()});
  return results;
}

}  // namespace

TEST_CASE("the JSON holds every field of every row") {
  auto const json = json_reader::read(llm::json_of(sample()));
  CHECK(json["model"].text() == "a \"quoted\"\nname");
  CHECK(json["backend"].text() == "host");
  REQUIRE(json["rows"].items().size() == 2);
  auto const& row = json["rows"].items()[0];
  CHECK(row["pattern"].text() == "vertical_slash:500:500");
  CHECK(row["task"].text() == "passkey");
  CHECK(row["length"].number() == 4096);
  CHECK(row["passkeys"].number() == 10);
  CHECK(row["right"].number() == 9);
  CHECK(row["visited_share"].number() == 0.48);
  CHECK(row["output_error"].number() == 0.01);
  CHECK(row["nll"].number() == 2.435);
  CHECK(row["prefill_seconds"].number() == 8.25);
  CHECK(row["decode_seconds"].number() == 0.03);
  CHECK(json["rows"].items()[1]["nll"].is_null());
}

TEST_CASE("the table has a line for each row and columns that line up") {
  auto const table = llm::table_of(sample());
  CHECK(table.find("9 of 10") != std::string::npos);
  auto const first_line = table.find('\n');
  CHECK(table.find('\n', first_line + 1) == 2 * first_line + 1);
}
