#include "support/device.cuh"

#include <doctest/doctest.h>
#include <lacuna/exec/workspace.hpp>

#include <numeric>
#include <thread>

namespace test_bodies {

using lacuna::index_t;

/// Block b writes b * width + (width - 1 - i) to out[b * width + i] by way of scratch, so that a missing barrier shows.
struct reverse_through_scratch {
  int* out;
  int width;
  std::size_t scratch;

  LACUNA_HD std::size_t scratch_bytes() const { return scratch; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
    auto* const row = reinterpret_cast<int*>(team.scratch());
    for (int i = team.rank(); i < width; i += team.size()) row[i] = static_cast<int>(block) * width + i;
    team.sync();
    for (int i = team.rank(); i < width; i += team.size()) out[block * width + i] = row[width - 1 - i];
  }
};

/// The same work under another name, so that its first launch ever is the one under test.
template <int>
struct fresh_reverse : reverse_through_scratch {};

/// Writes the last byte of its scratch and reads it back.
struct touch_end_of_scratch {
  int* out;
  std::size_t scratch;

  LACUNA_HD std::size_t scratch_bytes() const { return scratch; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
    if (team.rank() == 0) team.scratch()[scratch - 1] = std::byte{42};
    team.sync();
    if (team.rank() == 1 % team.size()) out[block] = static_cast<int>(team.scratch()[scratch - 1]);
  }
};

/// Only the last blocks write.
struct report_last_blocks {
  index_t* out;
  index_t blocks;

  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
    if (blocks - block <= 4 && team.rank() == 0) out[blocks - block - 1] = block;
  }
};

struct wide {
  static constexpr int max_team_size = 1024;
  int* out;

  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t) const {
    for (int i = team.rank(); i < 1024; i += team.size()) out[i] = team.size();
  }
};

}  // namespace test_bodies

namespace {

using namespace test_bodies;

std::vector<int> reversed(int blocks, int width) {
  std::vector<int> rows(blocks * width);
  for (int b = 0; b < blocks; ++b)
    for (int i = 0; i < width; ++i) rows[b * width + i] = b * width + width - 1 - i;
  return rows;
}

TEST_CASE("every block runs once, its members meet at sync and share scratch") {
  test::device_stream const stream;
  test::place at{stream.exec()};
  for (int const blocks : {1, 7, 1000})
    for (int const team_size : {32, 96, 256}) {
      int* const out = at.make<int>(blocks * 333);
      at.exec().launch({blocks, team_size}, reverse_through_scratch{out, 333, 333 * sizeof(int)}).or_throw();
      CHECK(at.get(out, blocks * 333) == reversed(blocks, 333));
    }
}

TEST_CASE("no blocks, no launch") {
  test::device_stream const stream;
  CHECK(stream.exec().launch({.blocks = 0}, reverse_through_scratch{nullptr, 1, 4}).ok());
  CHECK(stream.exec().synchronize().ok());
}

TEST_CASE("scratch up to the device's limit is granted, more is refused with both numbers") {
  test::device_stream const stream;
  test::place at{stream.exec()};
  std::size_t const limit = at.exec().scratch_limit();
  CHECK(limit >= 99 * 1024);
  for (std::size_t const bytes : {std::size_t{48 * 1024}, std::size_t{48 * 1024 + 1}, std::size_t{99 * 1024}, limit}) {
    int* const out = at.make<int>(3);
    at.exec().launch({3, 64}, touch_end_of_scratch{out, bytes}).or_throw();
    CHECK(at.get(out, 3) == std::vector{42, 42, 42});
  }
  lacuna::status const refused = at.exec().launch({1, 64}, touch_end_of_scratch{nullptr, limit + 1});
  CHECK(refused.code() == lacuna::errc::invalid_argument);
  CHECK(refused.message().find(std::to_string(limit + 1)) != std::string::npos);
  CHECK(at.exec().synchronize().ok());
}

TEST_CASE("team sizes that the body cannot have are refused") {
  test::device_stream const stream;
  for (int const team_size : {-32, 0, 31, 33, 288, 1024})
    CHECK(stream.exec().launch({1, team_size}, touch_end_of_scratch{nullptr, 16}).code() == lacuna::errc::invalid_argument);
  test::place at{stream.exec()};
  int* const out = at.make<int>(1024);
  CHECK(at.exec().launch({1, 1024}, wide{out}).ok());
  CHECK(at.get(out, 1024) == std::vector<int>(1024, 1024));
}

TEST_CASE("more blocks than one grid holds") {
  test::device_stream const stream;
  test::place at{stream.exec()};
  index_t const blocks = (index_t{1} << 31) + 2;  // three of the last four run in the second grid
  index_t* const out = at.make<index_t>(4);
  at.exec().launch({blocks, 32}, report_last_blocks{out, blocks}).or_throw();
  CHECK(at.get(out, 4) == std::vector{blocks - 1, blocks - 2, blocks - 3, blocks - 4});
}

TEST_CASE("copies between host and device and within the device") {
  test::device_stream const stream;
  test::place at{stream.exec()};
  std::vector<int> values(100'001);
  std::iota(values.begin(), values.end(), 7);
  int* const first = at.put(values);
  int* const second = at.make<int>(values.size());
  at.exec().copy(second, first, values.size() * sizeof(int)).or_throw();
  CHECK(at.get(second, values.size()) == values);
  CHECK(at.exec().copy(nullptr, nullptr, 0).ok());
}

TEST_CASE("memory is aligned, and a workspace frees what it took") {
  test::device_stream const stream;
  for (std::size_t const bytes : {1, 255, 4097}) {
    lacuna::workspace const memory{stream.exec(), bytes};
    CHECK(reinterpret_cast<std::uintptr_t>(memory.data()) % 256 == 0);
  }
  CHECK(stream.exec().allocate(0) == nullptr);
  std::size_t const half = std::size_t{60} << 30;
  for (int round = 0; round < 4; ++round) lacuna::workspace{stream.exec(), half};  // fits only if the last one was freed
  CHECK(stream.exec().synchronize().ok());
}

TEST_CASE("an allocation that cannot be had throws cuda_error and leaves no error behind") {
  test::device_stream const stream;
  std::string message;
  try {
    stream.exec().allocate(std::size_t{1} << 50);
  } catch (lacuna::cuda_error const& error) {
    message = error.what();
  }
  CHECK(message.find("1125899906842624") != std::string::npos);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("an error of somebody else's is neither reported nor forgotten by a launch") {
  test::device_stream const stream;
  test::place at{stream.exec()};
  int* const out = at.make<int>(1);
  REQUIRE(cudaMemcpy(nullptr, out, 4, static_cast<cudaMemcpyKind>(77)) != cudaSuccess);
  CHECK(at.exec().launch({1, 64}, touch_end_of_scratch{out, 16}).ok());
  CHECK(cudaGetLastError() != cudaSuccess);
}

TEST_CASE("a body whose first launch is captured, with more scratch than is free, replays") {
  test::device_stream const stream;
  test::place at{stream.exec()};
  int* const out = at.put(std::vector<int>(20 * 100));
  fresh_reverse<0> const body{{out, 100, 90 * 1024}};
  test::recorded_graph const graph{stream, [&] { return at.exec().launch({20, 64}, body); }};
  CHECK(at.get(out, 20 * 100) == std::vector<int>(20 * 100));
  for (int replay = 0; replay < 3; ++replay) {
    at.refill(out, std::vector<int>(20 * 100, -1));
    graph.launch();
    CHECK(at.get(out, 20 * 100) == reversed(20, 100));
  }
}

TEST_CASE("threads that launch one body with different scratch do not disturb each other") {
  std::vector<std::jthread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t, &wrong] {
      test::device_stream const stream;
      test::place at{stream.exec()};
      int* const out = at.make<int>(10 * 64);
      for (int round = 0; round < 200; ++round) {
        fresh_reverse<1> const body{{out, 64, std::size_t(40 + 20 * t) * 1024}};
        if (!at.exec().launch({10, 64}, body).ok()) ++wrong;
      }
      if (at.get(out, 10 * 64) != reversed(10, 64)) ++wrong;
    });
  threads.clear();
  CHECK(wrong == 0);
}

TEST_CASE("the target follows the GPU and what was compiled") {
  test::device_stream const stream;
  int major = 0;
  test::check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
#ifdef LACUNA_HAS_SM90A
  if (major == 9) CHECK(stream.exec().target() == lacuna::target::sm90a);
#endif
  if (major == 8) CHECK(stream.exec().target() == lacuna::target::sm80);
}

TEST_CASE("a handle works while another device is current") {
  int devices = 0;
  test::check_cuda(cudaGetDeviceCount(&devices));
  if (devices < 2) return;
  test::device_stream const stream;
  test::place at{stream.exec()};
  test::check_cuda(cudaSetDevice(1));
  int* const out = at.make<int>(64);
  CHECK(at.exec().launch({1, 64}, reverse_through_scratch{out, 64, 256}).ok());
  CHECK(at.get(out, 64) == reversed(1, 64));
  int current = 0;
  test::check_cuda(cudaGetDevice(&current));
  CHECK(current == 1);
  test::check_cuda(cudaSetDevice(0));
}

}  // namespace
