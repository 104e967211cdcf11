// expect: static assertion failed|static_assert failed
// expect: key
#include <lacuna/kernels/attend_args.hpp>

struct wrong_rows {
  using element = float;
  double const* key(lacuna::sequence const&, lacuna::index_t, int, lacuna::index_t) const { return nullptr; }
  float const* value(lacuna::sequence const&, lacuna::index_t, int, lacuna::index_t) const { return nullptr; }
  lacuna::index_t run(lacuna::index_t) const { return 1; }
  lacuna::index_t key_stride() const { return 0; }
  lacuna::index_t value_stride() const { return 0; }
};
static_assert(lacuna::KvReader<wrong_rows>);
