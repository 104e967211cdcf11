#pragma once
#include <lacuna/exec/executor.hpp>
#include <lacuna/exec/host_executor.hpp>
#include <lacuna/exec/threaded_team.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace test {

/// Copies of host data where an executor's bodies can reach them; freed with the place.
template <class Exec>
class place {
 public:
  explicit place(Exec exec) : exec_{std::move(exec)} {}
  ~place() {
    for (auto const& [memory, bytes] : held_) exec_.deallocate(memory, bytes);
  }
  place(place const&) = delete;
  place& operator=(place const&) = delete;

  Exec const& exec() const { return exec_; }

  template <class T>
  T* make(std::size_t count) {
    if (count == 0) return nullptr;
    held_.emplace_back(exec_.allocate(count * sizeof(T)), count * sizeof(T));
    return static_cast<T*>(held_.back().first);
  }

  /// A copy of the values; null for none.
  template <class T>
  T* put(std::vector<T> const& values) {
    T* const memory = make<T>(values.size());
    refill(memory, values);
    return memory;
  }

  template <class T>
  void refill(T* memory, std::vector<T> const& values) {
    exec_.copy(memory, values.data(), values.size() * sizeof(T)).or_throw();
  }

  template <class T>
  std::vector<T> get(T const* memory, std::size_t count) {
    std::vector<T> values(count);
    exec_.copy(values.data(), memory, count * sizeof(T)).or_throw();
    exec_.synchronize().or_throw();
    return values;
  }

 private:
  Exec exec_;
  std::vector<std::pair<void*, std::size_t>> held_;
};

/// Runs every block on a team of real threads, so that ThreadSanitizer sees a missing sync(). Memory is the host's.
class threaded_executor {
 public:
  explicit threaded_executor(int team_size) : team_size_{team_size} {}
  lacuna::target target() const { return lacuna::target::host; }

  template <class Kernel>
    requires lacuna::Body<Kernel>
  lacuna::status launch(lacuna::launch_shape shape, Kernel const& body) const {
    lacuna::run_threaded(shape.blocks, team_size_, body);
    return {};
  }

  void* allocate(std::size_t bytes) const { return memory_.allocate(bytes); }
  void deallocate(void* memory, std::size_t bytes) const { memory_.deallocate(memory, bytes); }
  lacuna::status copy(void* to, void const* from, std::size_t bytes) const { return memory_.copy(to, from, bytes); }
  lacuna::status synchronize() const { return {}; }

 private:
  int team_size_;
  lacuna::host_executor memory_{1};
};

static_assert(lacuna::Executor<threaded_executor>);

}  // namespace test
