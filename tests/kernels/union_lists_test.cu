#include "support/device.cuh"
#include "support/list_problem.hpp"

#include <doctest/doctest.h>

TEST_CASE("a GPU joins lists to what the host joins them to, byte for byte") {
  test::device_stream const stream;
  for (auto const& [name, recipe] : test::list_recipes()) {
    CAPTURE(name);
    test::list_problem const p{recipe};
    CHECK(test::join(stream.exec(), p) == test::join(lacuna::host_executor{2}, p));
  }
}
