#pragma once
#include <lacuna/core/check_view.hpp>
#include <lacuna/exec/executor.hpp>
#include <lacuna/kernels/merge_outputs.hpp>

namespace lacuna {

/// An attention result: normalised output and the log of its softmax's sum.
template <class T>
struct partial_attention {
  tensor_view<T, 4> out;      // [batch, token, head, value_dim]
  tensor_view<float, 3> lse;  // [batch, token, head], natural logarithm
};

/// Writes attention over the union of two disjoint key sets to `to`, which may be `a` or `b` itself. Sink logits belong to one side only.
template <class Exec, class T>
requires Executor<Exec> status merge(Exec const& exec, partial_attention<T> const& a, partial_attention<T> const& b,
                                     partial_attention<T> const& to) {
  auto const& e = to.out.extent;
  for (auto const* side : {&a, &b, &to}) {
    char const* const name = side == &a ? "a" : side == &b ? "b" : "to";
    if (status s = detail::check_rows(name, side->out, e[0], -1, static_cast<int>(e[2]), static_cast<int>(e[3])); !s) return s;
    if (side->out.extent[1] != e[1]) return refuse(name, " has ", side->out.extent[1], " tokens; expected ", e[1]);
    if (side->lse.extent[0] != e[0] || side->lse.extent[1] != e[1] || side->lse.extent[2] != e[2])
      return refuse("lse of ", name, " is ", detail::extents_of(side->lse), "; expected [", e[0], ", ", e[1], ", ", e[2], "]");
    if (side->lse.size() > 0 && !side->lse) return refuse("lse of ", name, " is null; expected ", side->lse.size(), " numbers");
  }
  if (status s = detail::check_written("to", to.out); !s) return s;
  if (status s = detail::check_written("lse of to", to.lse); !s) return s;
  if (detail::overlap(to.out, to.lse)) return refuse("lse of to overlaps its out; expected memory of its own");
  for (auto const* side : {&a, &b})
    if (!(detail::same_view(side->out, to.out) && detail::same_view(side->lse, to.lse)) &&
        (detail::overlap(side->out, to.out) || detail::overlap(side->lse, to.lse) || detail::overlap(side->out, to.lse) ||
         detail::overlap(side->lse, to.out)))
      return refuse("to overlaps ", side == &a ? "a" : "b", "; expected memory of its own, or the very same views");
  merge_outputs<T> const body{a.out, a.lse, b.out, b.lse, to.out, to.lse};
  return exec.launch({body.blocks(), 128}, body);
}

}  // namespace lacuna
