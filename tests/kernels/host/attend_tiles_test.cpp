#include "kernels/host/isas.hpp"
#include "support/attend_problem.hpp"

#include <lacuna/kernels/host/attend_tiles.hpp>

#include <doctest/doctest.h>

namespace {

template <class T>
test::attend_result run_tiles(test::attend_problem<T> const& problem, lacuna::host_isa isa, int threads = 2) {
  lacuna::host_executor const exec{threads};
  test::place<lacuna::host_executor> at{exec};
  auto const args = problem.put(at);
  lacuna::attend_tiles<std::remove_const_t<decltype(args)>> const body{args, isa};
  exec.for_each(body.tasks(), body.scratch_bytes(), body);
  return problem.read(at, args);
}

TEST_CASE_TEMPLATE("attend_tiles equals plain loops in double on every instruction set", T, float, lacuna::bfloat16, lacuna::float16) {
  for (auto const& [name, recipe] : test::attend_recipes()) {
    test::attend_problem<T> const problem{recipe};
    auto const expected = problem.oracle();
    for (auto const isa : test::isas())
      CHECK_MESSAGE(test::excess<T>(run_tiles(problem, isa), expected) <= 1, name << " on " << lacuna::host_isa_name(isa));
  }
}

}  // namespace
