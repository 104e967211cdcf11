#pragma once
#include <lacuna/core/math.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>

namespace lacuna {

/// The workers that execute one block of a body: one thread on the host, a thread block on a GPU. Members have ranks 0 .. size()-1,
/// share scratch memory and meet at sync().
template <class T>
concept Team = requires(T& team) {
  { team.rank() } -> std::same_as<int>;
  { team.size() } -> std::same_as<int>;
  team.sync();
  { team.scratch() } -> std::same_as<std::byte*>;
};

/// One worker that plays a whole block: the production team of host_executor.
class serial_team {
 public:
  explicit serial_team(std::byte* scratch) : scratch_{scratch} {}
  int rank() const { return 0; }
  int size() const { return 1; }
  void sync() const {}
  std::byte* scratch() const { return scratch_; }

 private:
  std::byte* scratch_;
};

/// A kernel: a trivially copyable struct of views and amounts; block b computes its part of the output and no other block's. Bytes of
/// scratch that a team needs come from scratch_bytes(), aligned to 16.
template <class B>
concept Body = std::is_trivially_copyable_v<B> && requires(B const body, serial_team& team, index_t block) {
  { body.scratch_bytes() } -> std::convertible_to<std::size_t>;
  body(team, block);
};

/// Geometry of one launch.
struct launch_shape {
  index_t blocks = 0;
  int team_size = 128;  // threads of a block on a GPU; a host team is one thread
};

}  // namespace lacuna
