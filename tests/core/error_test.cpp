#include <lacuna/core/error.hpp>

#include <doctest/doctest.h>

namespace {

TEST_CASE("a status is ok by default and costs no message") {
  lacuna::status const s;
  CHECK(s.ok());
  CHECK(static_cast<bool>(s));
  CHECK(s.message().empty());
  s.or_throw();
}

TEST_CASE("a refusal says what was expected and what came, and throws as set-up would") {
  lacuna::status const s = lacuna::refuse("query has ", 31, " heads, plan expects ", 32u);
  CHECK(s.code() == lacuna::errc::invalid_argument);
  CHECK(s.message() == "query has 31 heads, plan expects 32");
  CHECK_THROWS_WITH_AS(s.or_throw(), "query has 31 heads, plan expects 32", lacuna::invalid_argument);
  CHECK_THROWS_AS((lacuna::status{lacuna::errc::cuda, "no"}.or_throw()), lacuna::cuda_error);
}

TEST_CASE("require throws only when its condition fails") {
  lacuna::require(true, "not seen");
  CHECK_THROWS_WITH_AS(lacuna::require(false, "window is ", 0), "window is 0", lacuna::invalid_argument);
}

}  // namespace
