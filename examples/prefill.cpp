// Prefill of one sequence: every query reads 64 sinks and the newest 512 tokens.
#include <lacuna/lacuna.hpp>

#include <cstdio>
#include <random>
#include <vector>

struct config : lacuna::attention_defaults<float, 64> {
  using pattern = lacuna::a_shape;
};

int main() {
  lacuna::index_t const tokens = 4096;
  int const query_heads = 8, kv_heads = 2;
  std::mt19937 engine{1};
  std::normal_distribution<float> normal;
  auto const random_rows = [&](int heads) {
    std::vector<float> rows(tokens * heads * 64);
    for (auto& x : rows) x = normal(engine);
    return rows;
  };
  auto q = random_rows(query_heads), k = random_rows(kv_heads), v = random_rows(kv_heads), out = q;

  lacuna::host_executor const exec;  // or cuda_executor{stream}
  lacuna::sparse_attention<config> const attention{{.sinks = 64, .window = 512}};
  auto const plan = attention.plan_prefill(exec, {.queries = tokens, .keys = tokens, .query_heads = query_heads, .kv_heads = kv_heads});
  lacuna::workspace const scratch{exec, plan.workspace_bytes()};
  lacuna::status const status =
      attention.prefill(exec, plan, scratch, {.q = {q.data(), 1, tokens, query_heads, 64}, .out = {out.data(), 1, tokens, query_heads, 64}},
                        {{k.data(), 1, tokens, kv_heads, 64}, {v.data(), 1, tokens, kv_heads, 64}});
  if (!status) return std::fprintf(stderr, "%s\n", status.message().c_str()), 1;
  std::printf("%lld tokens on %d threads through %s; out[last] starts with %.4f\n", static_cast<long long>(tokens), exec.threads(),
              plan.body().c_str(), out[(tokens - 1) * query_heads * 64]);
}
