#pragma once
#include <lacuna/exec/team.hpp>

#include <barrier>
#include <thread>
#include <vector>

namespace lacuna {

/// Real threads behind a real barrier, so that ThreadSanitizer sees a missing sync(). For tests.
class threaded_team {
 public:
  threaded_team(int rank, std::barrier<>& barrier, int size, std::byte* scratch)
      : rank_{rank}, size_{size}, barrier_{barrier}, scratch_{scratch} {}
  int rank() const { return rank_; }
  int size() const { return size_; }
  void sync() const { barrier_.arrive_and_wait(); }
  std::byte* scratch() const { return scratch_; }

 private:
  int rank_, size_;
  std::barrier<>& barrier_;
  std::byte* scratch_;
};

/// Runs every block of a body on a team of `size` threads, block after block.
template <class Kernel>
void run_threaded(index_t blocks, int size, Kernel const& body) {
  std::vector<std::max_align_t> scratch(body.scratch_bytes() / sizeof(std::max_align_t) + 1);
  std::barrier<> barrier{size};
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      threaded_team team{rank, barrier, size, reinterpret_cast<std::byte*>(scratch.data())};
      for (index_t block = 0; block < blocks; ++block) body(team, block), team.sync();
    });
}

}  // namespace lacuna
