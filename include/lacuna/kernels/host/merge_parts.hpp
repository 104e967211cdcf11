#pragma once
#include <lacuna/kernels/attend_args.hpp>

#include <cmath>

namespace lacuna {

/// Joins the parts of each row in ascending order and adds the sink logit, as merge_rows does, with one exponential a part. Task
/// (b * query heads + h) * queries + i.
template <class Args>
struct merge_parts {
  using element = typename Args::element;
  Args args;
  attend_parts parts;

  index_t tasks() const { return args.shape.batch * args.shape.query_heads * args.shape.queries; }
  std::size_t scratch_bytes() const { return (static_cast<std::size_t>(parts.splits) + args.shape.value_dim) * sizeof(float); }

  void operator()(index_t row, std::byte* scratch) const {
    index_t const i = row % args.shape.queries, b = row / args.shape.queries / args.shape.query_heads;
    int const head = static_cast<int>(row / args.shape.queries % args.shape.query_heads), dim = args.shape.value_dim;
    sequence const s = sequence_at(args.lengths, args.shape, b);
    if (i >= s.queries) return;
    float* const weight = reinterpret_cast<float*>(scratch);
    float* const acc = weight + parts.splits;
    float const lse = weigh(head, parts.lse + row * parts.splits, weight);
    for (int d = 0; d < dim; ++d) acc[d] = 0;
    for (int p = 0; p < parts.splits; ++p) {
      if (weight[p] == 0) continue;
      float const* const part = parts.out + (row * parts.splits + p) * dim;
      for (int d = 0; d < dim; ++d) acc[d] += weight[p] * part[d];
    }
    element* const out = args.out.row(b, s.first_query + i, head);
    for (int d = 0; d < dim; ++d) out[d] = from_float<element>(acc[d]);
    if (args.lse) args.lse(b, s.first_query + i, head) = lse;
  }

 private:
  /// Shares of the parts in the row's softmax; returns its LSE.
  float weigh(int head, float const* lse, float* weight) const {
    float const sink = args.sink_logits ? args.sink_logits[head] : -infinity;
    float peak = sink;
    for (int p = 0; p < parts.splits; ++p) peak = max(peak, lse[p]), weight[p] = 0;
    if (peak == -infinity) return -infinity;
    float sum = std::exp(sink - peak);
    for (int p = 0; p < parts.splits; ++p) weight[p] = std::exp(lse[p] - peak), sum += weight[p];
    for (int p = 0; p < parts.splits; ++p) weight[p] /= sum;
    return peak + std::log(sum);
  }
};

}  // namespace lacuna
