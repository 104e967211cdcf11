// InfiniteHiP decode: keys are kept unturned, pruning runs again when its schedule says so, and what it kept is read in between.
#include <lacuna/lacuna.hpp>

#include <cstdio>
#include <random>
#include <vector>

namespace {

using lacuna::index_t;

struct config : lacuna::attention_defaults<float, 64> {
  using pattern = lacuna::infinite_hip;
  using rope = lacuna::attend_rope;
};

constexpr index_t prompt = 20'000, steps = 20;
constexpr int query_heads = 4, kv_heads = 2, dim = 64, layers = 2;

std::vector<float> random_numbers(std::size_t count, unsigned seed) {
  std::mt19937 engine{seed};
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& x : numbers) x = normal(engine);
  return numbers;
}

}  // namespace

int main() {
  lacuna::host_executor const exec;
  lacuna::host_rope_table const table{lacuna::rope_frequencies(1e4, dim), 8192};  // positions that the model was trained for

  // Layer 0 scans by chunk number and keeps 4096 tokens, layer 1 compares contents only and keeps 2048.
  std::vector<lacuna::infinite_hip> patterns;
  for (int layer = 0; layer < layers; ++layer)
    patterns.push_back(lacuna::infinite_hip_3k({.layer = layer, .early_layers = 1, .table = table.view()}));

  lacuna::attention_shape const shape{.queries = 1, .keys = prompt + steps, .query_heads = query_heads, .kv_heads = kv_heads};
  std::vector<lacuna::sparse_attention<config>> attention;
  std::vector<lacuna::attention_plan> plans;
  std::size_t bytes = 0;
  for (auto const& pattern : patterns) {
    attention.emplace_back(pattern, lacuna::attention_options{.rope = lacuna::infinite_hip_rope(table.view())});
    plans.push_back(attention.back().plan_decode(exec, shape));
    bytes = lacuna::max(bytes, plans.back().workspace_bytes());
  }
  lacuna::workspace const scratch{exec, bytes};
  lacuna::index_cache const cache{exec, patterns, plans[0].shape(), lacuna::refresh_default};  // stages run every 16, 8 and 4 steps

  auto const k = random_numbers(layers * (prompt + steps) * kv_heads * dim, 1), v = random_numbers(k.size(), 2);
  auto const q = random_numbers(steps * layers * query_heads * dim, 3);
  std::vector<float> out(query_heads * dim);
  for (index_t step = 0; step < steps; ++step)
    for (int layer = 0; layer < layers; ++layer) {
      index_t const keys = prompt + step + 1;
      float const *const layer_k = k.data() + layer * (prompt + steps) * kv_heads * dim, *const layer_v = v.data() + (layer_k - k.data());
      lacuna::contiguous_kv<float> const kv{{layer_k, 1, keys, kv_heads, dim}, {layer_v, 1, keys, kv_heads, dim}};
      auto const* const query = q.data() + (step * layers + layer) * query_heads * dim;
      auto const status =
          attention[layer].decode(exec, plans[layer], scratch,
                                  {.q = {query, 1, 1, query_heads, dim}, .out = {out.data(), 1, 1, query_heads, dim}}, kv, cache, layer);
      if (!status) return std::fprintf(stderr, "%s\n", status.message().c_str()), 1;
      if (step % 8 != 0) continue;
      auto const pairs = lacuna::visited_pairs(plans[layer].index(scratch.data()), {1, 1, keys, query_heads, kv_heads, dim, dim});
      std::printf("step %2td, layer %d: %5.1f %% of %td keys read\n", step, layer, 100 * pairs.share(), keys);
    }
}
