#pragma once
#include <lacuna/core/check_view.hpp>
#include <lacuna/exec/workspace.hpp>
#include <lacuna/kernels/captured_mass.hpp>
#include <lacuna/pattern/pattern.hpp>

namespace lacuna {

/// Softmax mass that an index captures, row by row: what attention over it cannot see is 1 minus that. Exact: reads every key of every row
/// asked for, so it is for tests and tuning. `mass` is [batch, rows.count, query heads] for the sampled rows; {.count = queries} takes all.
/// Queries and keys are taken as they lie: under a position style, hand in turned ones.
template <class Exec, class T, class Kv>
requires Executor<Exec> status recall(Exec const& exec, build_inputs<T, Kv> const& in, sparse_index const& index, sampled_rows const& rows,
                                      tensor_view<float, 3> const& mass) {
  if (rows.count < 0 || rows.step < 1 || rows.step > max_tokens)
    return refuse("rows are ", rows.count, " at a step of ", rows.step, "; expected at least 0, and 1 to 2^30");
  if (status s = detail::check_span("mass", mass); !s) return s;
  if (mass.size() > 0 && !mass) return refuse("mass is null; expected room for ", mass.size(), " shares");
  if (mass.extent[0] != in.shape.batch || mass.extent[1] != rows.count || mass.extent[2] != in.shape.query_heads)
    return refuse("mass is ", detail::extents_of(mass), "; expected [", in.shape.batch, ", ", rows.count, ", ", in.shape.query_heads, "]");
  return launch_in_order(exec, captured_mass<build_inputs<T, Kv>>{in, index, rows, mass});
}

/// A running estimate of recall from a few rows of each run. Owns memory of the executor.
template <class Exec>
requires Executor<Exec>
class recall_meter {
 public:
  /// `rows` of every run are looked at, no more than the shape's queries; `shape` holds capacities. Throws invalid_argument.
  recall_meter(Exec exec, attention_shape const& shape, sampled_rows const& rows)
      : exec_{std::move(exec)},
        rows_{checked(shape, rows)},
        mass_{exec_, static_cast<std::size_t>(shape.batch * rows.count * shape.query_heads) * sizeof(float)},
        totals_{exec_, 2 * sizeof(double)} {
    restart().or_throw();
  }

  /// Looks at some rows of a run whose index was built from `in`.
  template <class T, class Kv>
  status add(build_inputs<T, Kv> const& in, sparse_index const& index) const {
    index_t const heads = in.shape.query_heads;
    tensor_view<float, 3> const mass{reinterpret_cast<float*>(mass_.data()), in.shape.batch, rows_.count, heads};
    if (mass.size() * sizeof(float) > mass_.bytes())
      return refuse("the run has ", in.shape.batch, " sequences of ", heads, " heads; the meter has room for ",
                    mass_.bytes() / sizeof(float), " samples");
    if (status s = recall(exec_, in, index, rows_, mass); !s) return s;
    return launch_in_order(exec_,
                           add_captured_mass{in.shape, in.lengths, rows_, {mass.data, in.shape.batch, rows_.count, heads}, totals()});
  }

  /// Mean share of the samples so far; 1 before there are any. Waits for the runs.
  double mean() const {
    double now[2];
    exec_.copy(now, totals_.data(), sizeof now).or_throw();
    exec_.synchronize().or_throw();
    return now[1] > 0 ? now[0] / now[1] : 1;
  }

  status restart() const {
    static constexpr double nothing[2] = {0, 0};
    return exec_.copy(totals_.data(), nothing, sizeof nothing);
  }

 private:
  static sampled_rows checked(attention_shape const& shape, sampled_rows const& rows) {
    attention_shape sizes = shape;
    sizes.key_dim = sizes.value_dim = 8;  // does not matter here
    lacuna::check(sizes);
    require(rows.count >= 1 && rows.step >= 1, "rows are ", rows.count, " at a step of ", rows.step, "; expected at least 1 and 1");
    index_t const most = max<index_t>(shape.queries, 1);
    return {min(rows.count, most), min(rows.step, most)};
  }
  double* totals() const { return reinterpret_cast<double*>(totals_.data()); }

  Exec exec_;
  sampled_rows rows_;
  workspace<Exec> mass_, totals_;
};

}  // namespace lacuna
