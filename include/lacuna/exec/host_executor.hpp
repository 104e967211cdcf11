#pragma once
#include <lacuna/exec/executor.hpp>
#include <lacuna/exec/thread_pool.hpp>

#include <cstring>
#include <memory>
#include <new>

namespace lacuna {

/// Runs bodies on the CPU, one block a task, over a pool shared by copies of the handle. Work is finished when a call returns, so
/// synchronize() has nothing to wait for. Safe to use from several threads; their loops take turns.
class host_executor {
 public:
  /// threads >= 1 counts the caller; 0 means one per hardware thread. Throws invalid_argument if it is negative.
  explicit host_executor(int threads = 0) : pool_{std::make_shared<thread_pool>(threads)} {}

  int threads() const { return pool_->size(); }
  lacuna::target target() const { return lacuna::target::host; }

  template <class Kernel>
    requires Body<Kernel>
  status launch(launch_shape shape, Kernel const& body) const {
    for_each(shape.blocks, body.scratch_bytes(), [&](index_t block, std::byte* scratch) {
      serial_team team{scratch};
      body(team, block);
    });
    return {};
  }

  /// Parallel loop for host siblings of bodies: work(i, scratch).
  template <class Work>
  void for_each(index_t count, std::size_t scratch_bytes, Work const& work) const {
    pool_->for_each(count, scratch_bytes, work);
  }

  void* allocate(std::size_t bytes) const { return ::operator new(bytes, std::align_val_t{256}); }
  void deallocate(void* memory, std::size_t) const { ::operator delete(memory, std::align_val_t{256}); }

  status copy(void* to, void const* from, std::size_t bytes) const {
    if (bytes) std::memcpy(to, from, bytes);
    return {};
  }

  status synchronize() const { return {}; }

 private:
  std::shared_ptr<thread_pool> pool_;
};

static_assert(Executor<host_executor>);

}  // namespace lacuna
