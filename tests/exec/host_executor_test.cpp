#include "support/place.hpp"

#include <doctest/doctest.h>
#include <lacuna/exec/workspace.hpp>

#include <numeric>
#include <thread>

namespace {

using lacuna::host_executor, lacuna::index_t;

/// Block b writes its `width` numbers in reverse by way of scratch.
struct reverse_through_scratch {
  int* out;
  int width;

  std::size_t scratch_bytes() const { return width * sizeof(int); }

  template <class Team>
  void operator()(Team& team, index_t block) const {
    auto* const row = reinterpret_cast<int*>(team.scratch());
    for (int i = team.rank(); i < width; i += team.size()) row[i] = static_cast<int>(block) * width + i;
    team.sync();
    for (int i = team.rank(); i < width; i += team.size()) out[block * width + i] = row[width - 1 - i];
  }
};

std::vector<int> reversed(int blocks, int width) {
  std::vector<int> rows(blocks * width);
  for (int b = 0; b < blocks; ++b)
    for (int i = 0; i < width; ++i) rows[b * width + i] = b * width + width - 1 - i;
  return rows;
}

TEST_CASE("every block of a body runs once") {
  for (int const threads : {1, 3})
    for (int const blocks : {0, 1, 50}) {
      std::vector<int> out(blocks * 33);
      CHECK(host_executor{threads}.launch({.blocks = blocks}, reverse_through_scratch{out.data(), 33}).ok());
      CHECK(out == reversed(blocks, 33));
    }
}

TEST_CASE("a team of threads gives the same result") {
  for (int const members : {1, 2, 4}) {
    std::vector<int> out(20 * 33);
    CHECK(test::threaded_executor{members}.launch({.blocks = 20}, reverse_through_scratch{out.data(), 33}).ok());
    CHECK(out == reversed(20, 33));
  }
}

TEST_CASE("copies of a handle share its threads, also from several user threads") {
  host_executor const exec{2};
  std::vector<std::vector<int>> outs(3, std::vector<int>(10 * 7));
  {
    std::vector<std::jthread> users;
    for (auto& out : outs)
      users.emplace_back([exec, &out] {
        for (int round = 0; round < 50; ++round) exec.launch({.blocks = 10}, reverse_through_scratch{out.data(), 7}).or_throw();
      });
  }
  for (auto const& out : outs) CHECK(out == reversed(10, 7));
}

TEST_CASE("memory is aligned to 256 bytes and copies move it") {
  host_executor const exec{1};
  std::vector<int> from(100), to(100);
  std::iota(from.begin(), from.end(), 0);
  CHECK(exec.copy(to.data(), from.data(), 400).ok());
  CHECK(to == from);
  CHECK(exec.copy(nullptr, nullptr, 0).ok());
  for (std::size_t const bytes : {0, 1, 1000}) {
    void* const memory = exec.allocate(bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(memory) % 256 == 0);
    exec.deallocate(memory, bytes);
  }
  CHECK(exec.synchronize().ok());
  CHECK(exec.target() == lacuna::target::host);
}

}  // namespace
