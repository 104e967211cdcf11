// expect: static assertion failed|static_assert failed
// expect: key_stride
#include <lacuna/kernels/attend_args.hpp>

struct no_strides {
  using element = float;
  float const* key(lacuna::sequence const&, lacuna::index_t, int, lacuna::index_t) const { return nullptr; }
  float const* value(lacuna::sequence const&, lacuna::index_t, int, lacuna::index_t) const { return nullptr; }
  lacuna::index_t run(lacuna::index_t) const { return 1; }
};
static_assert(lacuna::KvReader<no_strides>);
