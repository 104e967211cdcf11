#pragma once
#include <lacuna/core/element.hpp>
#include <lacuna/core/softmax_state.hpp>
#include <lacuna/core/tensor_view.hpp>

namespace lacuna {

/// Joins attention over two disjoint sets of keys into attention over both. Block (b * tokens + t) * heads + h. A row that is empty on
/// one side equals the other side; empty on both it is 0 with LSE -inf. `out` may be `a_out`.
template <class T>
struct merge_outputs {
  tensor_view<T const, 4> a_out;
  tensor_view<float const, 3> a_lse;
  tensor_view<T const, 4> b_out;
  tensor_view<float const, 3> b_lse;
  tensor_view<T, 4> out;
  tensor_view<float, 3> lse;

  LACUNA_HD index_t blocks() const { return out.extent[0] * out.extent[1] * out.extent[2]; }
  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t row) const {
    index_t const h = row % out.extent[2], t = row / out.extent[2] % out.extent[1], b = row / out.extent[2] / out.extent[1];
    merge_weights const w = merge_lse(a_lse(b, t, h), b_lse(b, t, h));
    team.sync();  // all have read the LSEs, which the output's may replace
    for (index_t d = team.rank(); d < out.extent[3]; d += team.size()) {
      float sum = 0;  // a side of weight 0 is not read: it may hold anything
      if (w.a > 0) sum += w.a * to_float(a_out(b, t, h, d));
      if (w.b > 0) sum += w.b * to_float(b_out(b, t, h, d));
      out(b, t, h, d) = from_float<T>(sum);
    }
    if (team.rank() == 0) lse(b, t, h) = w.lse;
  }
};

}  // namespace lacuna
