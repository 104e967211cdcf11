#include <lacuna/lacuna.hpp>

#include <doctest/doctest.h>
#include <support/problem.hpp>

namespace {

using lacuna::attention_shape, lacuna::index_t, test::problem;

template <class T, int D, class Pattern, int Dv = D>
struct config : lacuna::attention_defaults<T, D, Dv> {
  using pattern = Pattern;
};

bool causal(index_t position, index_t key) { return key <= position; }

template <class Config>
lacuna::status run(lacuna::sparse_attention<Config> const& attention, lacuna::host_executor const& exec, attention_shape const& shape,
                   lacuna::attention_io<typename Config::element> const& io, lacuna::contiguous_kv<typename Config::element> const& kv) {
  auto const plan = attention.plan_prefill(exec, shape);
  lacuna::workspace const scratch{exec, plan.workspace_bytes()};
  return attention.prefill(exec, plan, scratch, io, kv);
}

template <class T, int D, class Pattern, int Dv = D>
void agrees(attention_shape shape, Pattern pattern, std::function<bool(index_t, index_t)> const& visible,
            lacuna::attention_options options = {}) {
  shape.key_dim = D, shape.value_dim = Dv;
  CAPTURE(shape.queries);
  CAPTURE(shape.keys);
  CAPTURE(shape.query_heads);
  problem<T> p{shape, 7};
  lacuna::host_executor const exec{2};
  run(lacuna::sparse_attention<config<T, D, Pattern, Dv>>{pattern, options}, exec, shape, p.io(), p.kv()).or_throw();
  for (index_t b = 0; b < shape.batch; ++b) {
    auto const e =
        compare(p, b, visible, {.scale = options.scale > 0 ? options.scale : 1 / std::sqrt(double(D)), .soft_cap = options.soft_cap});
    CHECK(e.out <= test::tolerance<T>);
    CHECK(e.lse <= 2 * test::tolerance<T>);
  }
}

attention_shape const odd_shapes[] = {{1, 1, 1, 1, 1},   {1, 63, 63, 3, 3},  {2, 65, 65, 7, 1},   {1, 64, 200, 9, 3}, {1, 5, 3, 2, 1},
                                      {1, 130, 1, 4, 2}, {3, 1, 130, 12, 2}, {1, 200, 333, 5, 1}, {1, 7, 0, 2, 2}};

}  // namespace

TEST_CASE("dense attends to everything that causality allows") {
  for (auto const& s : odd_shapes) agrees<float, 64>(s, lacuna::dense{}, causal);
  for (auto const& s : odd_shapes) agrees<float, 64>(s, lacuna::dense{}, [](index_t, index_t) { return true; }, {.causal = false});
}

TEST_CASE("a sliding window is exact to the element") {
  for (std::int32_t const window : {1, 2, 63, 64, 65, 500})
    for (auto const& s : odd_shapes)
      agrees<float, 24>(s, lacuna::sliding_window{window}, [=](index_t i, index_t j) { return j <= i && i - j < window; });
}

TEST_CASE("an A-shape is exact to the element, also where sinks and window meet") {
  for (auto const& [sinks, window] : {std::pair{0, 1}, {1, 1}, {3, 33}, {64, 64}, {100, 7}, {1000, 1}, {5, 1000}})
    for (auto const& s : odd_shapes)
      agrees<float, 32>(s, lacuna::a_shape{sinks, window}, [=](index_t i, index_t j) { return j <= i && (j < sinks || i - j < window); });
}

TEST_CASE("a non-causal A-shape also reads what comes later") {
  for (auto const& s : odd_shapes)
    agrees<float, 32>(s, lacuna::a_shape{3, 9}, [](index_t i, index_t j) { return j < 3 || i - j < 9; }, {.causal = false});
}

TEST_CASE("the last queries of a tri-shape are dense, row by row") {
  for (std::int32_t const last : {0, 1, 30, 64, 1000})
    for (auto const& s : odd_shapes)
      agrees<float, 32>(s, lacuna::tri_shape{4, 8, last},
                        [=](index_t i, index_t j) { return j <= i && (j < 4 || i - j < 8 || i >= s.keys - last); });
}

TEST_CASE("element types, head dims, scale and soft cap") {
  attention_shape const s{1, 70, 100, 6, 2};
  agrees<lacuna::bfloat16, 64>(s, lacuna::a_shape{4, 40}, [](index_t i, index_t j) { return j <= i && (j < 4 || i - j < 40); });
  agrees<lacuna::float16, 128>(s, lacuna::dense{}, causal);
  agrees<float, 8, lacuna::dense, 256>(s, {}, causal);
  agrees<float, 256, lacuna::dense, 8>(s, {}, causal);
  agrees<float, 96, lacuna::dense, 72>(s, {}, causal, {.scale = 0.3f});
  agrees<float, 64>(s, lacuna::dense{}, causal, {.soft_cap = 2.5f});
}

TEST_CASE("a sink logit is one more term of each row's sum") {
  attention_shape const s{2, 9, 40, 4, 2, 16, 16};
  float const sinks[] = {-3, 0, 2, 40};
  problem<float> p{s, 3};
  auto io = p.io();
  io.sink_logits = sinks;
  lacuna::host_executor const exec{2};
  lacuna::sparse_attention<config<float, 16, lacuna::dense>> const attention;
  for (bool const decode : {false, true}) {
    p.poison();
    auto const plan = decode ? attention.plan_decode(exec, s) : attention.plan_prefill(exec, s);
    lacuna::workspace const scratch{exec, plan.workspace_bytes()};
    attention.prefill(exec, plan, scratch, io, p.kv()).or_throw();
    for (index_t b = 0; b < 2; ++b) {
      auto const e = compare(p, b, causal, {.scale = 0.25, .sink_logits = sinks});
      CHECK(e.out <= 2e-5);
      CHECK(e.lse <= 4e-5);
    }
  }
}

TEST_CASE("query tokens that form a tree see of the newest 64 keys what their rows say") {
  for (index_t const keys : {300, 64, 40})
    for (bool const decode : {false, true})
      for (index_t const queries : {7, 30}) {
        attention_shape const s{2, queries, keys, 4, 2, 16, 16};
        problem<float> p{s, 3};
        std::mt19937_64 engine{5};
        std::vector<std::uint64_t> tree(2 * queries);
        for (auto& row : tree) row = engine();
        auto io = p.io();
        io.tree.rows = {static_cast<std::uint64_t const*>(tree.data()), 2, queries};
        lacuna::host_executor const exec{2};
        lacuna::sparse_attention<config<float, 16, lacuna::a_shape>> const attention{{.sinks = 10, .window = 150}};
        auto const plan = decode ? attention.plan_decode(exec, s) : attention.plan_prefill(exec, s);
        lacuna::workspace const scratch{exec, plan.workspace_bytes()};
        attention.prefill(exec, plan, scratch, io, p.kv()).or_throw();
        for (index_t b = 0; b < 2; ++b) {
          auto const visible = [&](index_t i, index_t j) {
            std::uint64_t const row = tree[b * queries + i - (keys - queries)];
            return j <= i && (j < 10 || i - j < 150) && (j < keys - 64 || (row >> (j - keys + 64) & 1));
          };
          auto const e = compare(p, b, visible, {.scale = 0.25});
          CHECK(e.out <= 2e-5);
          CHECK(e.lse <= 4e-5);
        }
      }
}

TEST_CASE("decode splits long rows and still agrees") {
  for (int const queries : {1, 3}) {
    attention_shape const s{2, queries, 9000, 6, 2, 16, 24};
    problem<float> p{s, 5};
    lacuna::host_executor const exec{2};
    lacuna::sparse_attention<config<float, 16, lacuna::a_shape, 24>> const attention{{.sinks = 100, .window = 6000}};
    auto const plan = attention.plan_decode(exec, s);
    CHECK(plan.splits() > 1);
    lacuna::workspace const scratch{exec, plan.workspace_bytes()};
    attention.decode(exec, plan, scratch, p.io(), p.kv()).or_throw();
    for (index_t b = 0; b < 2; ++b) {
      auto const e = compare(p, b, [](index_t i, index_t j) { return j <= i && (j < 100 || i - j < 6000); }, {.scale = 0.25});
      CHECK(e.out <= 2e-5);
      CHECK(e.lse <= 4e-5);
    }
  }
}

TEST_CASE("lengths per sequence: empty ones give 0 and -inf, the others what they give alone") {
  attention_shape const s{4, 7, 50, 4, 2, 16, 16};
  std::int32_t const keys[] = {50, -1, 0, 7}, queries[] = {5, 7, 3, 0};
  problem<float> p{s, 11};
  auto io = p.io();
  io.lengths = {.query_lengths = queries, .key_lengths = keys};
  lacuna::host_executor const exec{2};
  run(lacuna::sparse_attention<config<float, 16, lacuna::dense>>{}, exec, s, io, p.kv()).or_throw();
  for (index_t b = 0; b < 4; ++b) {
    index_t const n = std::max(0, keys[b]);
    auto const e = compare(p, b, causal, {.scale = 0.25, .queries = queries[b], .keys = n});
    CHECK(e.out <= 2e-5);
    CHECK(e.lse <= 4e-5);
    for (index_t i = queries[b]; i < 7; ++i)
      for (int h = 0; h < 4; ++h) {
        CHECK(io.out(b, i, h, 3) == 0);
        CHECK(io.lse(b, i, h) == -lacuna::infinity);
      }
  }
}

TEST_CASE("packed sequences do not see each other") {
  std::int32_t const query_offsets[] = {0, 5, 5, 17}, key_offsets[] = {0, 9, 12, 40};
  attention_shape const whole{1, 17, 40, 6, 3, 16, 16};
  problem<float> p{whole, 13};
  auto io = p.io();
  io.lengths = {.query_offsets = query_offsets, .key_offsets = key_offsets};
  lacuna::host_executor const exec{2};
  lacuna::sparse_attention<config<float, 16, lacuna::a_shape>> const attention{{.sinks = 2, .window = 6}};
  attention_shape const planned{3, 12, 28, 6, 3};
  run(attention, exec, planned, io, p.kv()).or_throw();
  for (int b = 0; b < 3; ++b) {
    index_t const n = query_offsets[b + 1] - query_offsets[b], m = key_offsets[b + 1] - key_offsets[b];
    problem<float> alone{{1, n, m, 6, 3, 16, 16}, 1};
    std::copy_n(&p.q[query_offsets[b] * 6 * 16], n * 6 * 16, alone.q.begin());
    std::copy_n(&p.k[key_offsets[b] * 3 * 16], m * 3 * 16, alone.k.begin());
    std::copy_n(&p.v[key_offsets[b] * 3 * 16], m * 3 * 16, alone.v.begin());
    run(attention, exec, {1, 12, 28, 6, 3}, alone.io(), alone.kv()).or_throw();  // the same capacities, so the same body
    CHECK(std::equal(alone.out.begin(), alone.out.end(), p.out.begin() + query_offsets[b] * 6 * 16));
  }
}

TEST_CASE("offsets that run backwards, past the tensor or past the plan are refused before anything is written") {
  problem<float> p{{1, 17, 40, 2, 1, 16, 16}, 13};
  lacuna::host_executor const exec{1};
  lacuna::sparse_attention<config<float, 16, lacuna::dense>> const attention;
  auto const message = [&](std::int32_t middle, std::int32_t last, std::int32_t last_key) {
    std::int32_t const query_offsets[] = {0, middle, last}, key_offsets[] = {0, 20, last_key};
    auto io = p.io();
    io.lengths = {.query_offsets = query_offsets, .key_offsets = key_offsets};
    auto const status = run(attention, exec, {2, 12, 28, 2, 1}, io, p.kv());
    if (!status)
      for (float const x : p.out) REQUIRE(std::isnan(x));
    return status.message();
  };
  CHECK(message(9, 8, 40).find("query_offsets has 9 and 8 around sequence 1") == 0);
  CHECK(message(-1, 8, 40).find("query_offsets has 0 and -1 around sequence 0") == 0);
  CHECK(message(13, 17, 40).find("query_offsets gives sequence 0 13 tokens; the plan has at most 12") == 0);
  CHECK(message(9, 18, 40).find("query_offsets ends sequence 1 at 18; the packed tensor has 17 tokens") == 0);
  CHECK(message(9, 17, 41).find("key_offsets ends sequence 1 at 41; the packed tensor has 40 tokens") == 0);
  CHECK(message(9, 17, 40).empty());
}

TEST_CASE("views of one fused projection equal compact copies") {
  index_t const n = 70, hq = 4, hkv = 2, d = 16, row = (hq + 2 * hkv) * d;
  problem<float> p{{1, n, n, int(hq), int(hkv), int(d), int(d)}, 17};
  std::vector<float> fused(n * row);
  for (index_t t = 0; t < n; ++t) {
    std::copy_n(&p.q[t * hq * d], hq * d, &fused[t * row]);
    std::copy_n(&p.k[t * hkv * d], hkv * d, &fused[t * row + hq * d]);
    std::copy_n(&p.v[t * hkv * d], hkv * d, &fused[t * row + (hq + hkv) * d]);
  }
  lacuna::host_executor const exec{2};
  lacuna::sparse_attention<config<float, 16, lacuna::dense>> const attention;
  run(attention, exec, p.shape, p.io(), p.kv()).or_throw();
  auto const compact = p.out;
  p.poison();
  auto io = p.io();
  auto const view = [&](index_t at, index_t heads) {
    return lacuna::tensor_view<float const, 4>{&fused[at], {1, n, heads, d}, {n * row, row, d, 1}};
  };
  io.q = view(0, hq);
  run(attention, exec, p.shape, io, {view(hq * d, hkv), view((hq + hkv) * d, hkv)}).or_throw();
  CHECK(p.out == compact);
}

TEST_CASE("what no row reads never reaches the output") {
  attention_shape const s{1, 150, 150, 2, 1, 16, 16};
  problem<float> p{s, 19};
  lacuna::host_executor const exec{2};
  lacuna::sparse_attention<config<float, 16, lacuna::a_shape>> const attention{{.sinks = 3, .window = 5}};
  auto io = p.io();
  io.q.data += 100 * 2 * 16, io.q.extent[1] = 50, io.out.data += 100 * 2 * 16, io.out.extent[1] = 50;
  io.lse = {};
  attention_shape const last{1, 50, 150, 2, 1};
  run(attention, exec, last, io, p.kv()).or_throw();
  auto const clean = p.out;
  std::fill(p.k.begin() + 3 * 16, p.k.begin() + 95 * 16, NAN);
  std::fill(p.v.begin() + 3 * 16, p.v.begin() + 95 * 16, NAN);
  run(attention, exec, last, io, p.kv()).or_throw();
  CHECK(std::equal(clean.begin() + 100 * 2 * 16, clean.end(), p.out.begin() + 100 * 2 * 16));
}

TEST_CASE("a row is the same whatever else is in the batch and however many threads there are") {
  attention_shape const s{3, 3, 5000, 4, 2, 16, 16};
  problem<float> p{s, 23};
  lacuna::sparse_attention<config<float, 16, lacuna::dense>> const attention;
  auto const decode = [&](int threads, attention_shape shape, lacuna::attention_io<float> const& io,
                          lacuna::contiguous_kv<float> const& kv) {
    lacuna::host_executor const exec{threads};
    auto const plan = attention.plan_decode(exec, shape);
    lacuna::workspace const scratch{exec, plan.workspace_bytes()};
    attention.decode(exec, plan, scratch, io, kv).or_throw();
  };
  decode(1, s, p.io(), p.kv());
  auto const together = p.out;
  p.poison();
  auto io = p.io();
  auto kv = p.kv();
  io.q.extent[0] = io.out.extent[0] = io.lse.extent[0] = kv.keys.extent[0] = kv.values.extent[0] = 1;
  decode(3, {1, 3, 5000, 4, 2}, io, kv);
  CHECK(std::equal(p.out.begin(), p.out.begin() + 3 * 4 * 16, together.begin()));
}

namespace {
template <class Call>
std::string refusal(Call const& call) {
  try {
    call();
  } catch (lacuna::invalid_argument const& e) {
    return e.what();
  }
  return "";
}
}  // namespace

TEST_CASE("plans refuse shapes by name, with what was expected and what came") {
  using attention = lacuna::sparse_attention<config<float, 64, lacuna::a_shape>>;
  lacuna::host_executor const exec{1};
  attention const a{{.sinks = 1, .window = 2}};
  auto const plan = [&](attention_shape s) { return refusal([&] { (void)a.plan_prefill(exec, s); }); };
  CHECK(plan({1, 4, 4, 33, 2}).find("query_heads is 33; expected a positive multiple of kv_heads 2") != std::string::npos);
  CHECK(plan({1, 4, 4, 3, 0}).find("kv_heads is 0") != std::string::npos);
  CHECK(plan({-1, 4, 4, 2, 2}).find("batch is -1") != std::string::npos);
  CHECK(plan({1, -4, 4, 2, 2}).find("queries is -4") != std::string::npos);
  CHECK(plan({1, 4, index_t{1} << 40, 2, 2}).find("keys is 1099511627776") != std::string::npos);
  CHECK(plan({1, 4, 4, 40000, 2}).find("query_heads is 40000; expected at most 32767") != std::string::npos);
  CHECK(plan({1 << 20, 1 << 20, 4, 2, 2}).find("is more than 2^40 rows") != std::string::npos);
  CHECK(plan({1, 4, 4, 2, 2, 128, 64}).find("key_dim is 128; this configuration has 64") != std::string::npos);
  CHECK(refusal([&] {
          (void)attention{{.sinks = 1, .window = 0}}.plan_prefill(exec, {1, 4, 4, 2, 2});
        }).find("window is 0") != std::string::npos);
  CHECK(refusal([&] {
          (void)attention{{.sinks = -1, .window = 1}}.plan_prefill(exec, {1, 4, 4, 2, 2});
        }).find("sinks is -1") != std::string::npos);
  CHECK(refusal([&] { (void)attention{{}, {.scale = NAN}}; }).find("scale is") != std::string::npos);
}

TEST_CASE("runs refuse tensors by name before anything is written") {
  attention_shape const s{2, 6, 9, 4, 2, 16, 16};
  problem<float> p{s, 29};
  lacuna::host_executor const exec{1};
  lacuna::sparse_attention<config<float, 16, lacuna::dense>> const attention;
  auto const plan = attention.plan_prefill(exec, s);
  lacuna::workspace const scratch{exec, plan.workspace_bytes()}, small{exec, 16};
  auto const message = [&](auto const& change) {
    auto io = p.io();
    auto kv = p.kv();
    change(io, kv);
    auto const status = attention.prefill(exec, plan, scratch, io, kv);
    CHECK(status.code() == lacuna::errc::invalid_argument);
    for (float const x : p.out) REQUIRE(std::isnan(x));
    return status.message();
  };
  CHECK(message([](auto& io, auto&) { io.q.data = nullptr; }).find("q is null") == 0);
  CHECK(message([](auto& io, auto&) { io.out.data = nullptr; }).find("out is null") == 0);
  CHECK(message([](auto&, auto& kv) { kv.keys.data = nullptr; }).find("k is null") == 0);
  CHECK(message([](auto&, auto& kv) { kv.values.data = nullptr; }).find("v is null") == 0);
  CHECK(message([](auto& io, auto&) { io.q.extent[2] = 3; }).find("q is [2, 6, 3, 16]; expected [2, at most 6, 4, 16]") == 0);
  CHECK(message([](auto& io, auto&) { io.q.extent[1] = 7; }).find("q is [2, 7, 4, 16]") == 0);
  CHECK(message([](auto& io, auto&) { io.out.extent[1] = 5; }).find("out has 5 tokens; q has 6") == 0);
  CHECK(message([](auto& io, auto&) { io.lse.extent[2] = 5; }).find("lse is [2, 6, 5]") == 0);
  CHECK(message([](auto&, auto& kv) { kv.keys.extent[1] = 10; }).find("k is [2, 10, 2, 16]; expected [2, at most 9, 2, 16]") == 0);
  CHECK(message([](auto&, auto& kv) { kv.values.extent[1] = 8; }).find("v has 8 tokens; k has 9") == 0);
  std::uint64_t const tree[12] = {};
  CHECK(message([&](auto& io, auto&) { io.tree.rows = {tree, 2, 5}; }).find("tree is [2, 5]; expected [2, 6]") == 0);
  CHECK(message([](auto& io, auto&) { io.q.stride[3] = 2; }).find("q has innermost stride 2; expected 1") == 0);
  CHECK(message([](auto& io, auto&) { io.q.stride[1] = -64; }).find("q has stride -64") == 0);
  CHECK(message([&](auto& io, auto&) { io.q.data = io.out.data; }).find("out overlaps q") == 0);
  CHECK(message([&](auto& io, auto& kv) { kv.values.data = io.out.data; }).find("out overlaps v") == 0);
  CHECK(attention.prefill(exec, plan, small, p.io(), p.kv()).message().find("workspace has 16 bytes; the plan needs") == 0);
  index_t const huge = index_t{1} << 60;
  CHECK(message([&](auto& io, auto&) { io.out.stride[1] = huge; }).find("out is [2, 6, 4, 16] and spans more than 2^58 elements") == 0);
  CHECK(message([](auto& io, auto&) { io.out.stride[1] = 0; }).find("out has stride 0 in dimension 1 of 6") == 0);
  CHECK(message([&](auto& io, auto&) { io.lse.data = io.out.data; }).find("lse overlaps out") == 0);
  CHECK(message([&](auto& io, auto&) { io.lse.data = const_cast<float*>(io.q.data); }).find("lse overlaps q") == 0);
  CHECK(message([&](auto& io, auto& kv) { io.lse.data = const_cast<float*>(kv.keys.data); }).find("lse overlaps k or v") == 0);
  CHECK(message([&](auto& io, auto&) { io.out.data = reinterpret_cast<float*>(scratch.data()); }).find("out overlaps the workspace") == 0);
  CHECK(message([](auto& io, auto&) { io.lse.stride[0] = -1; }).find("lse has stride -1") == 0);
}

TEST_CASE("packed views of any size are refused where no memory holds them") {
  attention_shape const s{2, 8, 8, 2, 1, 16, 16};
  lacuna::host_executor const exec{1};
  lacuna::sparse_attention<config<float, 16, lacuna::dense>> const attention;
  auto const plan = attention.plan_prefill(exec, s);
  lacuna::workspace const scratch{exec, plan.workspace_bytes()};
  std::int32_t const offsets[3] = {0, 8, 16};
  lacuna::attention_io<float> io;
  io.lengths = {.query_offsets = offsets, .key_offsets = offsets};
  io.q = {nullptr, {1, index_t{1} << 60, 2, 16}, {0, 32, 16, 1}};
  io.out = {nullptr, {1, index_t{1} << 60, 2, 16}, {0, 32, 16, 1}};
  lacuna::contiguous_kv<float> const kv{{nullptr, 1, 16, 1, 16}, {nullptr, 1, 16, 1, 16}};
  CHECK(attention.prefill(exec, plan, scratch, io, kv).message().find("q is [1, 1152921504606846976, 2, 16] and spans more") == 0);
}

TEST_CASE("a packed sequence's length stays within what its offsets leave") {
  attention_shape const s{2, 8, 8, 2, 1, 16, 16};
  std::vector<std::int32_t> const offsets{0, 5, 10}, longer{5, 8}, negative{-3, 8};
  lacuna::sequence_lengths const l{offsets.data(), offsets.data(), longer.data(), negative.data()};
  CHECK(lacuna::sequence_at(l, s, 0).queries == 5);
  CHECK(lacuna::sequence_at(l, s, 1).queries == 5);
  CHECK(lacuna::sequence_at(l, s, 0).keys == 0);
  CHECK(lacuna::sequence_at(l, s, 1).keys == 5);
}

TEST_CASE("a plan of another pattern, of other amounts, dims or elements is refused before anything is written") {
  attention_shape const s{1, 70, 70, 2, 1, 16, 16};
  problem<float> p{s, 3};
  lacuna::host_executor const exec{1};
  auto const message = [&](auto const& planner, auto const& runner) {
    auto const plan = planner.plan_prefill(exec, {1, 70, 70, 2, 1});
    lacuna::workspace const scratch{exec, plan.workspace_bytes()};
    auto const status = runner.prefill(exec, plan, scratch, p.io(), p.kv());
    CHECK(status.code() == lacuna::errc::invalid_argument);
    for (float const x : p.out) REQUIRE(std::isnan(x));
    return status.message();
  };
  using slashes = lacuna::sparse_attention<config<float, 16, lacuna::vertical_slash>>;
  using blocks = lacuna::sparse_attention<config<float, 16, lacuna::block_sparse>>;
  using plain = lacuna::sparse_attention<config<float, 16, lacuna::dense>>;
  char const* const other = "the plan was made for another pattern or other amounts";
  CHECK(message(slashes{lacuna::vertical_slash{.verticals = 1, .slashes = 1, .first = 0, .nearest = 0}},
                slashes{lacuna::vertical_slash{.verticals = 50, .slashes = 50, .first = 5, .nearest = 1}})
            .find(other) == 0);
  CHECK(message(plain{}, blocks{lacuna::block_sparse{4}}).find(other) == 0);
  CHECK(message(plain{}, plain{{}, {.causal = false}}).find(other) == 0);
  CHECK(
      message(lacuna::sparse_attention<config<float, 32, lacuna::dense>>{}, plain{}).find("the plan was made for f32 with head dims 32") ==
      0);
  CHECK(message(lacuna::sparse_attention<config<lacuna::bfloat16, 16, lacuna::dense>>{}, plain{}).find("the plan was made for bf16") == 0);
}

TEST_CASE("plans whose workspace no machine has are refused") {
  lacuna::host_executor const exec{1};
  index_t const many = index_t{1} << 29;
  auto const refused = [&](auto const& attention, bool decode, attention_shape const& s) {
    try {
      (void)(decode ? attention.plan_decode(exec, s) : attention.plan_prefill(exec, s));
      return false;
    } catch (lacuna::invalid_argument const& e) {
      return std::string{e.what()}.find("bytes of workspace") != std::string::npos;
    }
  };
  CHECK(refused(lacuna::sparse_attention<config<float, 16, lacuna::dense>>{}, true, {1, many, many, 1024, 1024}));
  CHECK(refused(lacuna::sparse_attention<config<float, 16, lacuna::block_sparse_of<8>>>{lacuna::block_sparse_of<8>{1 << 30}}, false,
                {1, many, many, 1024, 1024}));
  CHECK(refused(lacuna::sparse_attention<config<float, 16, lacuna::vertical_slash>>{lacuna::vertical_slash{
                    .verticals = 1 << 30, .slashes = 100, .tile = 1}},
                false, {1, many, many, 1024, 1024}));
}

TEST_CASE("an empty batch and no queries are done at once") {
  lacuna::host_executor const exec{1};
  lacuna::sparse_attention<config<float, 16, lacuna::dense>> const attention;
  for (attention_shape const s : {attention_shape{0, 5, 5, 2, 1, 16, 16}, {2, 0, 5, 2, 1, 16, 16}, {1, 0, 0, 2, 1, 16, 16}}) {
    problem<float> p{s, 1};
    CHECK(run(attention, exec, s, p.io(), p.kv()).ok());
  }
}

TEST_CASE("a plan says which body runs and why") {
  lacuna::sparse_attention<config<float, 16, lacuna::dense>> const attention;
  auto const plan = attention.plan_prefill(lacuna::host_executor{1}, {1, 4, 4, 2, 1});
  CHECK_FALSE(plan.body().empty());
  CHECK_FALSE(plan.reason().empty());
}

namespace {
/// An executor of one's own: the host's, under another target.
struct other_executor : lacuna::host_executor {
  using host_executor::host_executor;
  lacuna::target target() const { return lacuna::target::portable_cuda; }
};
}  // namespace

template <>
struct lacuna::attend_backend<other_executor> : lacuna::portable_backend {};

TEST_CASE("an executor of one's own attends with the portable body, and only with its own plans") {
  attention_shape const s{1, 9, 40, 4, 2, 16, 16};
  problem<float> p{s, 3};
  other_executor const own{2};
  lacuna::host_executor const host{1};
  lacuna::sparse_attention<config<float, 16, lacuna::dense>> const attention;
  auto const plan = attention.plan_prefill(own, s);
  CHECK(plan.body() == "attend_row");
  lacuna::workspace<other_executor> const scratch{own, plan.workspace_bytes()};
  lacuna::workspace<lacuna::host_executor> const on_host{host, plan.workspace_bytes()};
  auto const refused = attention.prefill(host, plan, on_host, p.io(), p.kv());
  CHECK(refused.message().find("the plan was made for another kind of executor") == 0);
  for (float const x : p.out) REQUIRE(std::isnan(x));
  attention.prefill(own, plan, scratch, p.io(), p.kv()).or_throw();
  CHECK(compare(p, 0, causal, {.scale = 0.25}).out <= 2e-5);
}
