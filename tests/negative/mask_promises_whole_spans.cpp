// expect: static assertion failed|static_assert failed
// expect: sees_all
#include <lacuna/kernels/attend_args.hpp>

struct no_promise {
  bool visible(lacuna::head_rule const&, int, lacuna::index_t, lacuna::index_t) const { return true; }
};
static_assert(lacuna::ElementMask<no_promise>);
