// expect: static assertion failed|static_assert failed
// expect: scratch_bytes
#include <lacuna/exec/team.hpp>

struct no_scratch {
  template <class Team>
  void operator()(Team&, lacuna::index_t) const {}
};
static_assert(lacuna::Body<no_scratch>);
