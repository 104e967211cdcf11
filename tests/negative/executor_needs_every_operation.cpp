// expect: static assertion failed|static_assert failed
// expect: no_copy
#include <lacuna/exec/executor.hpp>

struct no_copy {
  void* allocate(std::size_t) const;
  void deallocate(void*, std::size_t) const;
};
static_assert(lacuna::Executor<no_copy>);
