#pragma once
#include <lacuna/core/error.hpp>
#include <lacuna/exec/team.hpp>

#include <concepts>
#include <cstddef>

namespace lacuna {

enum class target { host, sm80, sm90a, portable_cuda };

namespace detail {
struct empty_body {
  LACUNA_HD std::size_t scratch_bytes() const { return 0; }
  LACUNA_ANY_TEAM
  template <class T>
  LACUNA_HD void operator()(T&, index_t) const {}
};
}  // namespace detail

/// Where work runs: a copyable handle. Everything but synchronize() is ordered like a stream and may return before it is done.
template <class E>
concept Executor = std::copyable<E> && requires(E const& exec, void* memory, void const* source, std::size_t bytes) {
  { exec.launch(launch_shape{}, detail::empty_body{}) } -> std::same_as<status>;
  { exec.allocate(bytes) } -> std::same_as<void*>;  // throws; aligned to 256 bytes
  exec.deallocate(memory, bytes);
  { exec.copy(memory, source, bytes) } -> std::same_as<status>;
  { exec.synchronize() } -> std::same_as<status>;  // the only call that blocks
  { exec.target() } -> std::same_as<target>;
};

}  // namespace lacuna
