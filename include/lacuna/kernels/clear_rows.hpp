#pragma once
#include <lacuna/kernels/attend_args.hpp>

namespace lacuna {

/// Writes output 0 and LSE -inf to padding: rows of a padded batch past their sequence's length. Block b * query heads + h.
template <class Args>
struct clear_rows {
  using element = typename Args::element;
  Args args;

  LACUNA_HD index_t blocks() const { return args.shape.batch * args.shape.query_heads; }
  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
    index_t const b = block / args.shape.query_heads;
    int const head = static_cast<int>(block % args.shape.query_heads);
    index_t const first = sequence_at(args.lengths, args.shape, b).queries, count = args.shape.queries - first;
    for (index_t at = team.rank(); at < count * args.shape.value_dim; at += team.size())
      args.out(b, first + at / args.shape.value_dim, head, at % args.shape.value_dim) = from_float<element>(0);
    if (!args.lse) return;
    for (index_t i = first + team.rank(); i < args.shape.queries; i += team.size()) args.lse(b, i, head) = -infinity;
  }
};

template <class Args>
clear_rows(Args) -> clear_rows<Args>;  // clang deduces it for aggregates from 17 on only

}  // namespace lacuna
