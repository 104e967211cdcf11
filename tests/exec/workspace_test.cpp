#include <lacuna/exec/host_executor.hpp>
#include <lacuna/exec/workspace.hpp>

#include <doctest/doctest.h>

#include <type_traits>

namespace {

/// Counts what is held.
struct counting_executor {
  int* held;

  lacuna::target target() const { return lacuna::target::host; }
  template <class Kernel>
  lacuna::status launch(lacuna::launch_shape, Kernel const&) const {
    return {};
  }
  void* allocate(std::size_t bytes) const {
    ++*held;
    return ::operator new (bytes, std::align_val_t{256});
  }
  void deallocate(void* memory, std::size_t) const {
    --*held;
    ::operator delete (memory, std::align_val_t{256});
  }
  lacuna::status copy(void*, void const*, std::size_t) const { return {}; }
  lacuna::status synchronize() const { return {}; }
};

using workspace = lacuna::workspace<counting_executor>;
static_assert(!std::is_copy_constructible_v<workspace> && std::is_nothrow_move_constructible_v<workspace>);

TEST_CASE("a workspace frees what it took, once") {
  int held = 0;
  {
    workspace const w{counting_executor{&held}, 100};
    CHECK(held == 1);
    CHECK(w.bytes() == 100);
    CHECK(reinterpret_cast<std::uintptr_t>(w.data()) % 256 == 0);
  }
  CHECK(held == 0);
}

TEST_CASE("nothing is taken for no bytes") {
  int held = 0;
  workspace const w{counting_executor{&held}, 0};
  CHECK(held == 0);
  CHECK(w.data() == nullptr);
}

TEST_CASE("moving hands the memory on") {
  int held = 0, other = 0;
  {
    workspace a{counting_executor{&held}, 100};
    std::byte* const memory = a.data();
    workspace b{std::move(a)};
    CHECK(b.data() == memory);
    CHECK(a.bytes() == 0);
    workspace c{counting_executor{&other}, 50};
    c = std::move(b);
    CHECK(c.data() == memory);
    CHECK(other == 0);
    CHECK(held == 1);
  }
  CHECK(held == 0);
  CHECK(other == 0);
}

TEST_CASE("a workspace of the host's executor deduces its type") {
  lacuna::workspace const w{lacuna::host_executor{1}, 10};
  CHECK(w.data() != nullptr);
}

}  // namespace
