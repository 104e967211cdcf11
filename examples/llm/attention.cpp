#include "attention.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <cblas.h>

#include "error.hpp"

namespace llm {
namespace {

// Stands in until the library's facade is there.
void dense_block(attention_tensors const& t, std::int64_t head, std::int64_t first, std::int64_t rows, std::vector<float>& scores) {
  auto const group = t.q.extent[1] / t.k.extent[1];
  auto const offset = t.k.extent[0] - t.q.extent[0];
  auto const keys = offset + first + rows;
  auto const dim = static_cast<int>(t.q.extent[2]);
  scores.resize(static_cast<std::size_t>(rows * keys));
  auto const stride = [](auto const& view, int axis) { return static_cast<int>(view.stride[axis]); };
  float const* const k = t.k.row(0, head / group);
  float const* const v = t.v.row(0, head / group);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(rows), static_cast<int>(keys), dim,
              1.0F / std::sqrt(static_cast<float>(dim)), t.q.row(first, head), stride(t.q, 0), k, stride(t.k, 0), 0.0F, scores.data(),
              static_cast<int>(keys));
  for (std::int64_t row = 0; row < rows; ++row) {
    float* const s = scores.data() + row * keys;
    auto const visible = offset + first + row + 1;
    float const largest = *std::max_element(s, s + visible);
    float sum = 0;
    for (std::int64_t i = 0; i < visible; ++i) sum += s[i] = std::exp(s[i] - largest);
    for (std::int64_t i = 0; i < visible; ++i) s[i] /= sum;
    std::fill(s + visible, s + keys, 0.0F);
  }
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(rows), dim, static_cast<int>(keys), 1.0F, scores.data(),
              static_cast<int>(keys), v, stride(t.v, 0), 0.0F, t.out.row(first, head), stride(t.out, 0));
}

}  // namespace

pair_count attention::prefill(pattern_spec const& pattern, attention_tensors const& tensors) {
  if (pattern.kind != pattern_kind::dense) throw error("pattern '" + text_of(pattern) + "' is not built yet");
  decode(tensors);
  auto const queries = tensors.q.extent[0];
  auto const pairs = tensors.q.extent[1] * (queries * (tensors.k.extent[0] - queries) + queries * (queries + 1) / 2);
  return {pairs, pairs};
}

void attention::decode(attention_tensors const& tensors) {
  constexpr std::int64_t block = 128;
  auto const blocks = (tensors.q.extent[0] + block - 1) / block;
  exec_.for_each(blocks * tensors.q.extent[1], 0, [&](std::int64_t task, std::byte*) {
    std::vector<float> scores;
    auto const first = (blocks - 1 - task % blocks) * block;
    dense_block(tensors, task / blocks, first, std::min(block, tensors.q.extent[0] - first), scores);
  });
}

}  // namespace llm
