#pragma once
#include <lacuna/pattern/pattern.hpp>

namespace lacuna {

namespace detail {
/// Sinks, then the newest `window` tokens of each query of the tile. Non-causal tiles also read what comes after them.
LACUNA_HD constexpr static_list window_list(std::int32_t sinks, std::int32_t window, index_t rows, bool causal) {
  static_list l;
  l.prefix = sinks, l.rule.sinks = sinks, l.rule.window = window;
  l.spans = 1, l.relative[0] = {1 - window, causal ? static_cast<std::int32_t>(rows) : 0x7fffffff};
  return l;
}

inline void check_window(std::int32_t sinks, std::int32_t window) {
  require(sinks >= 0, "sinks is ", sinks, "; expected at least 0");
  require(window >= 1, "window is ", window, "; expected at least 1: a query reads itself");
}
}  // namespace detail

/// Sinks plus a sliding window, element-exact: query i reads key j iff j <= i and (j < sinks or i - j < window).
/// MInference section 2 (A-shape); with one query it is StreamingLLM.
struct a_shape {
  std::int32_t sinks = 1024;   // first tokens, read by every query
  std::int32_t window = 4096;  // newest tokens a query reads, itself included; at least 1

  void check(attention_shape const&) const { detail::check_window(sinks, window); }

  LACUNA_HD constexpr static_list list(index_t rows, index_t, sequence const&, bool causal) const {
    return detail::window_list(sinks, window, rows, causal);
  }

  friend bool operator==(a_shape const&, a_shape const&) = default;
};

static_assert(StaticPattern<a_shape>);

}  // namespace lacuna
