// A pattern of one's own: every query reads its own block of 128 tokens and the first block, as in blocked local attention.
// It does not look at the data, so it only states the list of a tile; see pattern/block_sparse.hpp for one that does.
#include <lacuna/lacuna.hpp>

#include <cmath>
#include <cstdio>
#include <vector>

struct own_block {
  std::int32_t block = 128;  // tokens; a multiple of the 64-token query tile, so that a tile lies in one block

  void check(lacuna::attention_shape const&) const {
    lacuna::require(block > 0 && block % 64 == 0, "block is ", block, "; expected a positive multiple of 64");
  }

  LACUNA_HD constexpr lacuna::static_list list(lacuna::index_t rows, lacuna::index_t, lacuna::sequence const&, bool) const {
    lacuna::static_list l;
    l.prefix = block;  // the first block
    l.spans = 1, l.relative[0] = {1 - block, static_cast<std::int32_t>(rows)};  // covers the own block; the mask below makes it exact
    return l;
  }
};
static_assert(lacuna::StaticPattern<own_block>);

struct own_block_mask {
  static constexpr lacuna::index_t block = 128;
  LACUNA_HD constexpr bool visible(lacuna::head_rule const&, int, lacuna::index_t position, lacuna::index_t key) const {
    return key < block || key / block == position / block;
  }
  LACUNA_HD constexpr bool sees_all(lacuna::head_rule const&, int, lacuna::index_t first, lacuna::index_t last, lacuna::index_t begin,
                                    lacuna::index_t end) const {
    return end <= block || (begin / block == last / block && (end - 1) / block == first / block);
  }
};

struct config : lacuna::attention_defaults<float, 8> {
  using pattern = own_block;
  using mask = own_block_mask;
};

int main() {
  lacuna::index_t const n = 500;
  std::vector<float> q(n * 8, 0.f), k(n * 8, 1.f), v(n * 8), out(n * 8);
  for (lacuna::index_t t = 0; t < n; ++t)
    for (int d = 0; d < 8; ++d) v[t * 8 + d] = static_cast<float>(t);

  lacuna::host_executor const exec{2};
  lacuna::sparse_attention<config> const attention{{.block = 128}};
  auto const plan = attention.plan_prefill(exec, {.queries = n, .keys = n, .query_heads = 1, .kv_heads = 1});
  lacuna::workspace const scratch{exec, plan.workspace_bytes()};
  attention.prefill(exec, plan, scratch, {.q = {q.data(), 1, n, 1, 8}, .out = {out.data(), 1, n, 1, 8}}, {{k.data(), 1, n, 1, 8}, {v.data(), 1, n, 1, 8}})
      .or_throw();

  // With q = 0 every visible key weighs the same: token 300 sees 0..127 and 256..300, whose positions are the values.
  double const expected = (127 * 128 / 2 + (256 + 300) * 45 / 2.0) / (128 + 45);
  std::printf("token 300 averages to %.3f, expected %.3f\n", out[300 * 8], expected);
  return std::abs(out[300 * 8] - expected) < 1e-2 ? 0 : 1;
}
