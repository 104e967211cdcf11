#include <lacuna/exec/thread_pool.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#define LIMITS_ADDRESSES 1
#endif

namespace {

using lacuna::index_t, lacuna::thread_pool;

TEST_CASE("a negative number of threads is refused") {
  CHECK_THROWS_WITH_AS(thread_pool{-5}, "threads is -5, expected 1 or more, or 0 for one per hardware thread", lacuna::invalid_argument);
}

TEST_CASE("every iteration runs exactly once") {
  for (int const threads : {1, 2, 5}) {
    thread_pool pool{threads};
    CHECK(pool.size() == threads);
    for (index_t const count : {0, 1, 2, 7, 1000}) {
      std::vector<int> runs(count);
      pool.for_each(count, 0, [&](index_t i, std::byte*) { ++runs[i]; });
      CHECK(runs == std::vector<int>(count, 1));
    }
  }
}

TEST_CASE("no threads asked for means one per hardware thread") { CHECK(thread_pool{0}.size() >= 1); }

TEST_CASE("a negative count runs nothing") {
  thread_pool pool{2};
  pool.for_each(-3, 16, [](index_t, std::byte*) { FAIL("ran"); });
}

TEST_CASE("loops follow each other without losing work") {
  thread_pool pool{3};
  std::vector<index_t> sums(2000);
  for (std::size_t round = 0; round < sums.size(); ++round) {
    std::atomic<index_t> sum = 0;
    pool.for_each(8, 0, [&](index_t i, std::byte*) { sum += i; });
    sums[round] = sum;
  }
  CHECK(sums == std::vector<index_t>(2000, 28));
}

TEST_CASE("scratch is the worker's own, aligned, and grows with what is asked") {
  thread_pool pool{3};
  for (std::size_t const bytes : {std::size_t{64}, std::size_t{10'000}, std::size_t{100}}) {
    std::atomic<int> wrong = 0;
    pool.for_each(200, bytes, [&](index_t i, std::byte* scratch) {
      if (reinterpret_cast<std::uintptr_t>(scratch) % 64) ++wrong;
      std::fill_n(scratch, bytes, static_cast<std::byte>(i));
      std::this_thread::yield();
      for (std::size_t at = 0; at < bytes; ++at) wrong += scratch[at] != static_cast<std::byte>(i);
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("a loop inside a loop runs on its own worker with scratch of its own") {
  thread_pool pool{3};
  std::vector<index_t> sums(40);
  pool.for_each(40, 256, [&](index_t i, std::byte* outer) {
    std::fill_n(outer, 256, std::byte{1});
    pool.for_each(10, 512, [&](index_t j, std::byte* inner) {
      std::fill_n(inner, 512, std::byte{2});
      sums[i] += j;
    });
    for (int at = 0; at < 256; ++at) sums[i] += outer[at] != std::byte{1};
  });
  CHECK(sums == std::vector<index_t>(40, 45));
}

TEST_CASE("a loop of another pool inside a loop runs too") {
  thread_pool outer{2}, inner{2};
  std::atomic<int> runs = 0;
  outer.for_each(20, 0, [&](index_t, std::byte*) { inner.for_each(5, 64, [&](index_t, std::byte*) { ++runs; }); });
  CHECK(runs == 100);
}

TEST_CASE("after a nested loop the worker still belongs to the outer one") {
  thread_pool outer{2}, inner{2};
  std::atomic<int> runs = 0;
  outer.for_each(10, 0, [&](index_t, std::byte*) {
    inner.for_each(3, 0, [&](index_t, std::byte*) { ++runs; });
    outer.for_each(3, 0, [&](index_t, std::byte*) { ++runs; });
  });
  CHECK(runs == 60);
}

TEST_CASE("loops from several user threads all finish") {
  thread_pool pool{3};
  std::vector<std::atomic<index_t>> sums(4);
  {
    std::vector<std::jthread> users;
    for (auto& sum : sums)
      users.emplace_back([&] {
        for (int round = 0; round < 100; ++round)
          pool.for_each(20, 128, [&](index_t i, std::byte* scratch) {
            scratch[127] = std::byte{1};
            sum += i;
          });
      });
  }
  for (auto const& sum : sums) CHECK(sum == 100 * 190);
}

TEST_CASE("work of a long iteration is seen by the caller afterwards") {
  thread_pool pool{4};
  std::vector<int> values(4);
  pool.for_each(4, 0, [&](index_t i, std::byte*) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5 * (i + 1)));
    values[i] = static_cast<int>(i) + 1;
  });
  CHECK(values == std::vector{1, 2, 3, 4});
}

#ifdef LIMITS_ADDRESSES
TEST_CASE("threads that cannot be had are an exception, not the program's end") {
  pid_t const child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    rlimit const little{rlim_t{1} << 30, rlim_t{1} << 30};
    setrlimit(RLIMIT_AS, &little);
    try {
      thread_pool pool{5000};
    } catch (std::system_error const&) {
      _exit(7);
    }
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}
#endif

}  // namespace
