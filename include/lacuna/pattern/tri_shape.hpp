#pragma once
#include <lacuna/pattern/a_shape.hpp>

namespace lacuna {

/// An A-shape whose last `last` queries read everything (the question at a prompt's end). MInference section 2.
struct tri_shape {
  std::int32_t sinks = 1024;
  std::int32_t window = 4096;  // at least 1
  std::int32_t last = 64;      // query tokens at the end of the sequence that are dense

  void check(attention_shape const&) const {
    detail::check_window(sinks, window);
    require(last >= 0, "last is ", last, "; expected at least 0");
  }

  LACUNA_HD constexpr static_list list(index_t rows, index_t first, sequence const& s, bool causal) const {
    static_list l = detail::window_list(sinks, window, rows, causal);
    index_t const dense_from = max<index_t>(s.keys - last, 0);
    l.rule.dense_from = static_cast<std::int32_t>(dense_from);
    l.dense = rows > 0 && first + rows > dense_from;
    return l;
  }

  friend bool operator==(tri_shape const&, tri_shape const&) = default;
};

static_assert(StaticPattern<tri_shape>);

}  // namespace lacuna
