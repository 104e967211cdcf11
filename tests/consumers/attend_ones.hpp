#pragma once
#include <lacuna/lacuna.hpp>

#include <cstddef>
#include <vector>

struct sinks_and_window : lacuna::attention_defaults<float, 64> {
  using pattern = lacuna::a_shape;
};

/// The smallest real use, the same on every executor: values that are all 1 must come out as 1.
template <class Exec>
bool attends_ones(Exec const& exec) {
  constexpr int tokens = 65, heads = 3, dim = 64;
  std::vector<float> ones(tokens * heads * dim, 1.0f), result(ones.size());
  std::size_t const bytes = ones.size() * sizeof(float);
  lacuna::workspace in{exec, bytes}, out{exec, bytes};
  auto* const input = reinterpret_cast<float*>(in.data());
  auto* const output = reinterpret_cast<float*>(out.data());
  exec.copy(in.data(), ones.data(), bytes).or_throw();

  lacuna::sparse_attention<sinks_and_window> const attention{{.sinks = 4, .window = 16}};
  auto const plan = attention.plan_prefill(exec, {.queries = tokens, .keys = tokens, .query_heads = heads, .kv_heads = 1});
  lacuna::workspace const scratch{exec, plan.workspace_bytes()};
  lacuna::tensor_view<float const, 4> const kv{input, 1, tokens, 1, dim};
  attention.prefill(exec, plan, scratch, {.q = {input, 1, tokens, heads, dim}, .out = {output, 1, tokens, heads, dim}}, {kv, kv}).or_throw();

  exec.copy(result.data(), out.data(), bytes).or_throw();
  exec.synchronize().or_throw();
  for (float const x : result)
    if (x < 0.9999f || x > 1.0001f) return false;
  return true;
}
