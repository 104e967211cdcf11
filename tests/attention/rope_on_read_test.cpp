#include <lacuna/attention/sparse_attention.hpp>
#include <lacuna/kernels/attend_row.hpp>
#include <lacuna/pattern/a_shape.hpp>
#include <lacuna/pattern/pruned.hpp>
#include <lacuna/rope/rope_frequencies.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "support/pattern_problem.hpp"

namespace {

using namespace lacuna;

using stages = pruned<chunk_scan<16>, chunk_scan<4>>;

template <class T, class Pattern>
struct turning : attention_defaults<T, 24> {
  using pattern = Pattern;
  using rope = attend_rope;
};

host_executor const host{2};
std::vector<double> const radians = rope_frequencies(1e3, 16);  // the last 8 dims do not turn
host_rope_table const halves{radians, 600}, neighbours{radians, 600, rope_pairing::neighbours};

/// The definition, row by row in double: positions as the styles describe them, over the keys of the row's list.
struct oracle {
  test::pattern_problem const& p;
  std::vector<float> const& v;
  attend_rope rope;

  std::vector<double> turned(float const* x, double position) const {
    std::vector<double> y(x, x + p.shape.key_dim);
    std::size_t const n = radians.size();
    for (std::size_t i = 0; i < n; ++i) {
      bool const is_half = rope.table.pairing == rope_pairing::halves;
      std::size_t const a = is_half ? i : 2 * i, b = is_half ? i + n : 2 * i + 1;
      double const c = std::cos(position * radians[i]), s = std::sin(position * radians[i]);
      y[a] = x[a] * c - x[b] * s, y[b] = x[a] * s + x[b] * c;
    }
    return y;
  }

  /// Position of listed key `at`, and of the query that stands at `position` and meets it.
  std::pair<double, double> positions(std::vector<std::int32_t> const& keys, std::size_t at, index_t position, index_t tile_first,
                                      index_t last) const {
    double const p0 = double(position), t = keys[at];
    switch (rope.style) {
      case attend_style::absolute:
        return {t, p0};
      case attend_style::streaming: {
        double newer = 0;  // listed keys between this one and the query
        for (std::size_t j = at + 1; j < keys.size() && keys[j] <= position; ++j) ++newer;
        return {p0 - newer, p0};
      }
      case attend_style::infllm: {
        double const first = std::max<double>(0, double(tile_first - rope.window));
        return {t < first ? first : t, p0};
      }
      case attend_style::dynamic_extend: {
        double const s = std::max(1.0, std::ceil(double(last) / rope.trained));
        if (p0 - t < rope.near) return {t, p0};
        return {std::floor(t / s), std::floor(p0 / s) + rope.near - std::floor(rope.near / s)};
      }
      default:
        return {0, 0};
    }
  }

  /// Largest error of a row, relative to its norm, and of its LSE.
  double error(sparse_index const& index, index_t b, int h, index_t i, float const* out, float lse) const {
    auto const s = p.sequence(b);
    auto const in = p.inputs();
    index_t const position = s.position(i), tile = i / index.tile_rows;
    auto const keys = test::keys_of(index, s, b, list_head(h, p.shape.query_heads, index.heads), tile).keys;
    head_rule const rule = index.rules[index.head_at(b, list_head(h, p.shape.query_heads, index.heads))];
    std::vector<double> sum(p.shape.value_dim);
    double total = 0;
    for (std::size_t at = 0; at < keys.size(); ++at) {
      if (keys[at] > position || !rule.visible(position, keys[at])) continue;
      auto const [where, query] = positions(keys, at, position, s.position(tile * index.tile_rows), s.keys - 1);
      auto const q = turned(in.q.row(b, s.first_query + i, h), query), k = turned(in.kv.key(s, b, p.shape.kv_head(h), keys[at]), where);
      double dot = 0;
      for (std::size_t d = 0; d < q.size(); ++d) dot += q[d] * k[d];
      double const weight = std::exp(dot * p.logits.scale);
      total += weight;
      float const* const value = &v[((b * p.shape.keys + keys[at]) * p.shape.kv_heads + p.shape.kv_head(h)) * p.shape.value_dim];
      for (std::size_t d = 0; d < sum.size(); ++d) sum[d] += weight * value[d];
    }
    double norm = 0, wrong = 0;
    for (std::size_t d = 0; d < sum.size(); ++d) {
      norm += std::pow(sum[d] / total, 2), wrong += std::pow(out[d] - sum[d] / total, 2);
      if (std::isnan(out[d])) return 1e9;
    }
    return std::max(std::sqrt(wrong / norm), std::abs(lse - std::log(total)));
  }
};

enum class body { facade, portable };

template <class T, class Pattern>
double worst_error(std::mt19937& engine, Pattern const& pattern, attend_rope const& rope, index_t queries, attend_phase phase, body which) {
  test::pattern_problem p{.shape = {2, queries, 300, 4, 2, 24, 24},
                          .query_lengths = {std::int32_t(queries), std::int32_t(queries / 2 + 1)},
                          .key_lengths = {300, 171},
                          .logits = {.scale = 0.2f}};
  p.fill(static_cast<unsigned>(engine()));
  p.template round_to<T>();
  std::normal_distribution<float> normal;
  std::vector<float> v(p.k.size());
  for (auto& x : v) x = to_float(T(normal(engine)));
  std::vector<T> const qt(p.q.begin(), p.q.end()), kt(p.k.begin(), p.k.end()), vt(v.begin(), v.end());
  std::vector<T> out(2 * queries * 4 * 24, T(std::nanf("")));
  std::vector<float> lse(2 * queries * 4);

  using config = turning<T, Pattern>;
  sparse_attention<config> const attention{pattern, {.scale = 0.2f, .rope = rope}};
  auto const plan = phase == attend_phase::prefill ? attention.plan_prefill(host, p.shape) : attention.plan_decode(host, p.shape);
  workspace<host_executor> const scratch{host, plan.workspace_bytes()};
  contiguous_kv<T> const kv{{kt.data(), 2, 300, 2, 24}, {vt.data(), 2, 300, 2, 24}};
  attention_io<T> const io{{qt.data(), 2, queries, 4, 24}, {out.data(), 2, queries, 4, 24}, {lse.data(), 2, queries, 4}, p.lengths()};
  attention.build(host, plan, scratch, io, kv).or_throw();
  sparse_index const index = plan.index(scratch.data());
  if (which == body::facade) {
    attention.attend(host, plan, scratch, io, kv).or_throw();
  } else {
    attend_args<T, contiguous_kv<T>, by_rule, attend_rope> const args{p.shape, p.lengths(), index,   io.q, kv,  io.out,
                                                                      io.lse,  p.logits,    nullptr, {},   rope};
    attend_row<std::remove_const_t<decltype(args)>> const row{args, {}};
    host.launch({row.blocks(), 128}, row).or_throw();
  }
  double worst = 0;
  oracle const right{p, v, rope};
  for (index_t b = 0; b < 2; ++b)
    for (int h = 0; h < 4; ++h)
      for (index_t i = 0; i < p.sequence(b).queries; ++i) {
        index_t const at = (b * queries + i) * 4 + h;
        std::vector<float> const o(out.begin() + at * 24, out.begin() + at * 24 + 24);
        worst = std::max(worst, right.error(index, b, h, i, o.data(), lse[at]));
      }
  return worst;
}

TEST_CASE("attention turns queries and keys as it reads them, in every style and body") {
  std::mt19937 engine{1};
  stages const lists{.sinks = 8,
                     .window = 32,
                     .stage = stage_list{chunk_scan<16>{.keep = 64, .query_block = 16}, chunk_scan<4>{.keep = 32, .query_block = 16}}};
  for (auto const style : {attend_style::absolute, attend_style::streaming, attend_style::infllm, attend_style::dynamic_extend})
    for (auto const* const table : {&halves, &neighbours})
      for (index_t const queries : {1, 3, 70}) {
        attend_rope const rope{.style = style, .table = table->view(), .window = 32, .trained = 100, .near = 40};
        CAPTURE(int(style));
        CAPTURE(queries);
        auto const phase = queries == 70 ? attend_phase::prefill : attend_phase::decode;
        CHECK(worst_error<float>(engine, lists, rope, queries, phase, body::facade) < 2e-5);
        CHECK(worst_error<float>(engine, lists, rope, queries, phase, body::portable) < 2e-5);
        CHECK(worst_error<bfloat16>(engine, lists, rope, queries, phase, body::facade) < 1e-2);
        CHECK(worst_error<float>(engine, a_shape{5, 32}, rope, queries, phase, body::facade) < 2e-5);
      }
}

TEST_CASE("long lists that are split over parts turn by their rank in the whole list") {
  std::mt19937 engine{2};
  test::pattern_problem p{.shape = {1, 1, 5000, 2, 1, 24, 24}, .logits = {.scale = 0.2f}};
  p.fill(3);
  std::vector<float> const v = p.k;
  host_rope_table const table{radians, 5000};
  attend_rope const rope{.style = attend_style::streaming, .table = table.view()};
  sparse_attention<turning<float, dense>> const attention{{}, {.scale = 0.2f, .rope = rope}};
  auto const plan = attention.plan_decode(host, p.shape);
  CHECK(plan.splits() == 3);
  workspace<host_executor> const scratch{host, plan.workspace_bytes()};
  std::vector<float> out(48), lse(2);
  auto const kv = p.inputs().kv;
  attention.decode(host, plan, scratch, {{p.q.data(), 1, 1, 2, 24}, {out.data(), 1, 1, 2, 24}, {lse.data(), 1, 1, 2}}, kv).or_throw();
  oracle const right{p, v, {.style = attend_style::absolute, .table = table.view()}};  // dense: ranks are positions
  for (int h = 0; h < 2; ++h) CHECK(right.error(plan.index(scratch.data()), 0, h, 0, out.data() + h * 24, lse[h]) < 2e-5);
}

TEST_CASE("styles that a configuration or a table cannot serve are refused") {
  auto const message = [](auto const& make) -> std::string {
    try {
      make();
    } catch (invalid_argument const& e) {
      return e.what();
    }
    return "";
  };
  attention_shape const s{1, 64, 601, 2, 1};
  attend_rope const absolute{.style = attend_style::absolute, .table = halves.view()};
  CHECK(message([&] {
          sparse_attention<turning<float, dense>>{{}, {.rope = absolute}}.plan_prefill(host, s);
        }) == "attend rope has a table of 600 positions; this style reaches 601");
  struct given : attention_defaults<float, 24> {};
  CHECK(message([&] {
          sparse_attention<given>{{}, {.rope = absolute}};
        }) == "the options have a position style; the configuration has no rope = attend_rope");
}

}  // namespace
