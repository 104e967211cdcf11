#pragma once
#include <lacuna/pattern/a_shape.hpp>

namespace lacuna {

/// The newest `window` tokens, element-exact: query i reads key j iff j <= i and i - j < window.
struct sliding_window {
  std::int32_t window = 4096;  // tokens, the query itself included; at least 1

  void check(attention_shape const&) const { detail::check_window(0, window); }

  LACUNA_HD constexpr static_list list(index_t rows, index_t, sequence const&, bool causal) const {
    return detail::window_list(0, window, rows, causal);
  }

  friend bool operator==(sliding_window const&, sliding_window const&) = default;
};

static_assert(StaticPattern<sliding_window>);

}  // namespace lacuna
