#pragma once
#include <lacuna/pattern/pattern.hpp>

namespace lacuna {

/// Every query reads every key that causality allows: one span.
struct dense {
  void check(attention_shape const&) const {}

  LACUNA_HD constexpr static_list list(index_t, index_t, sequence const&, bool) const {
    static_list l;
    l.spans = 1, l.relative[0] = {-0x7fffffff - 1, 0x7fffffff};
    return l;
  }

  friend bool operator==(dense const&, dense const&) = default;
};

static_assert(StaticPattern<dense>);

}  // namespace lacuna
