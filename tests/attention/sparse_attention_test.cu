#include "support/attention_on.hpp"
#include "support/device.cuh"
#include "support/pages.hpp"

#include <doctest/doctest.h>
#include <lacuna/pattern/block_sparse.hpp>
#include <lacuna/pattern/per_head.hpp>
#include <lacuna/pattern/vertical_slash.hpp>

namespace {

using lacuna::attention_shape, lacuna::index_t;

/// Tensor-core bodies round the softmax weights to the element too: half a unit of each weight, times values of order 1.
template <class T>
constexpr float within = sizeof(T) == 4 ? 2e-5f : 8e-3f;

/// The GPU's own target, and that of the sm_80 bodies where tensor-core bodies are for the element and the GPU prefers others.
template <class T>
std::vector<lacuna::cuda_executor> executors_for(test::device_stream const& stream) {
  auto const own = stream.exec();
  if (sizeof(T) == 4 || own.target() != lacuna::target::sm90a) return {own};
  return {own, own.targeting(lacuna::target::sm80)};
}

/// The device's index is the host's, and its output is the host's within rounding, on every target.
template <class T, int D, int Dv = D, class Pattern>
void device_equals_host(Pattern const& pattern, test::call_data<T> data, lacuna::attention_options options = {}, bool decode = false) {
  data.shape.key_dim = D, data.shape.value_dim = Dv;
  data.randomize(5);
  using config = test::config_of<T, D, Pattern, Dv>;
  lacuna::sparse_attention<config> const attention{pattern, options};
  test::device_stream const stream;
  test::call_on on_host{lacuna::host_executor{2}, attention, data, decode};
  auto const expected = on_host.run_and_read();
  for (auto const& exec : executors_for<T>(stream)) {
    test::call_on on_device{exec, attention, data, decode};
    auto const got = on_device.run_and_read();
    CAPTURE(data.shape.queries);
    CAPTURE(data.shape.keys);
    CAPTURE(data.shape.query_heads);
    CAPTURE(on_device.plan().body());
    CHECK(on_device.lists() == on_host.lists());
    CHECK(test::excess(got.out, expected.out, 2 * test::rounding<T>, within<T>) <= 1);
    CHECK(test::excess(got.lse, expected.lse, 2e-6f, 1e-4f) <= 1);
  }
}

attention_shape const odd_shapes[] = {{1, 1, 1, 1, 1},   {1, 63, 63, 3, 3},  {2, 65, 65, 7, 1},   {1, 64, 200, 9, 3}, {1, 5, 3, 2, 1},
                                      {1, 130, 1, 4, 2}, {3, 1, 130, 12, 2}, {1, 200, 333, 5, 1}, {1, 7, 0, 2, 2}};

template <class Pattern>
void on_odd_shapes(Pattern const& pattern, lacuna::attention_options options = {}) {
  for (auto const& shape : odd_shapes) device_equals_host<float, 32>(pattern, {.shape = shape}, options);
}

TEST_CASE("static patterns on a GPU give the host's index and output") {
  on_odd_shapes(lacuna::dense{});
  on_odd_shapes(lacuna::dense{}, {.causal = false});
  for (std::int32_t const window : {1, 63, 65, 500}) on_odd_shapes(lacuna::sliding_window{window});
  for (auto const& [sinks, window] : {std::pair{0, 1}, {3, 33}, {64, 64}, {100, 7}, {1000, 1}})
    on_odd_shapes(lacuna::a_shape{sinks, window});
  on_odd_shapes(lacuna::a_shape{3, 9}, {.causal = false});
  for (std::int32_t const last : {0, 1, 30, 64, 1000}) on_odd_shapes(lacuna::tri_shape{4, 8, last});
}

/// Patterns that look at the data take at most as many queries as keys.
template <class Pattern>
void on_prefill_shapes(Pattern const& pattern, std::vector<attention_shape> const& shapes, lacuna::attention_options options = {}) {
  for (auto const& shape : shapes) device_equals_host<float, 32>(pattern, {.shape = shape}, options);
}

TEST_CASE("vertical-slash on a GPU gives the host's index and output") {
  std::vector<attention_shape> const shapes{{1, 1, 1, 1, 1},     {1, 63, 63, 2, 1},   {2, 65, 65, 7, 1},
                                            {1, 128, 300, 9, 3}, {1, 300, 300, 2, 2}, {3, 5, 130, 4, 2}};
  on_prefill_shapes(lacuna::vertical_slash{.verticals = 20, .slashes = 30, .first = 3, .nearest = 9}, shapes);
  on_prefill_shapes(lacuna::vertical_slash{.verticals = 20, .slashes = 30, .first = 3, .nearest = 9, .tile = 16}, shapes);
  on_prefill_shapes(lacuna::vertical_slash{.verticals = 1000, .slashes = 1000}, shapes);
  on_prefill_shapes(lacuna::vertical_slash{.verticals = 5, .slashes = 5, .first = 1, .nearest = 1, .estimate_rows = 128}, shapes);
  on_prefill_shapes(lacuna::vertical_slash{.verticals = 10, .slashes = 20, .first = 2, .nearest = 4}, shapes, {.causal = false});
  device_equals_host<lacuna::bfloat16, 64>(lacuna::vertical_slash{.verticals = 40, .slashes = 60, .first = 4, .nearest = 16},
                                           {.shape = {1, 700, 700, 4, 2}});
}

TEST_CASE("block-sparse on a GPU gives the host's index and output") {
  std::vector<attention_shape> const shapes{{1, 1, 1, 1, 1},     {1, 63, 63, 2, 1},   {2, 65, 65, 7, 1},
                                            {1, 128, 300, 9, 3}, {1, 500, 500, 2, 2}, {3, 5, 130, 4, 2}};
  for (std::int32_t const keep : {1, 2, 4, 100}) on_prefill_shapes(lacuna::block_sparse{keep}, shapes);
  on_prefill_shapes(lacuna::block_sparse_of<16>{5}, shapes);
  on_prefill_shapes(lacuna::block_sparse{3}, shapes, {.causal = false});
  device_equals_host<lacuna::bfloat16, 64>(lacuna::block_sparse{4}, {.shape = {1, 700, 700, 4, 2}});
}

TEST_CASE("per-head on a GPU gives the host's index and output") {
  using per_head = lacuna::per_head<lacuna::dense, lacuna::a_shape, lacuna::vertical_slash, lacuna::block_sparse>;
  per_head const pattern{{lacuna::a_shape{4, 30}, lacuna::vertical_slash{.verticals = 9, .slashes = 12, .first = 2, .nearest = 5},
                          lacuna::dense{}, lacuna::block_sparse{2}, lacuna::a_shape{0, 65},
                          lacuna::vertical_slash{.verticals = 90, .slashes = 40, .first = 2, .nearest = 5}}};
  on_prefill_shapes(pattern, {{1, 65, 65, 6, 2}, {2, 130, 333, 6, 3}});
}

TEST_CASE("patterns that look at the data take packed batches and lengths from device memory") {
  test::call_data<float> packed{.shape = {3, 100, 100, 4, 2}};
  packed.query_offsets = {0, 5, 5, 105}, packed.key_offsets = {0, 90, 91, 191};
  test::call_data<float> padded{.shape = {4, 70, 90, 4, 2}};
  padded.query_lengths = {70, 0, 3, 64}, padded.key_lengths = {80, 40, 1000, -5};
  for (auto const& data : {packed, padded}) {
    device_equals_host<float, 16>(lacuna::vertical_slash{.verticals = 9, .slashes = 12, .first = 2, .nearest = 5}, data);
    device_equals_host<float, 16>(lacuna::block_sparse_of<16>{3}, data);
  }
}

TEST_CASE("element types, head dims, soft cap and sinks on a GPU") {
  attention_shape const shape{1, 70, 100, 6, 2};
  device_equals_host<lacuna::bfloat16, 64>(lacuna::a_shape{4, 40}, {.shape = shape});
  device_equals_host<lacuna::float16, 128>(lacuna::dense{}, {.shape = shape});
  device_equals_host<float, 8, 256>(lacuna::dense{}, {.shape = shape});
  device_equals_host<float, 256, 8>(lacuna::dense{}, {.shape = shape});
  device_equals_host<lacuna::bfloat16, 96, 72>(lacuna::dense{}, {.shape = shape}, {.scale = 0.3f});
  device_equals_host<lacuna::bfloat16, 96>(lacuna::a_shape{4, 40}, {.shape = shape}, {.soft_cap = 2.5f});
  device_equals_host<lacuna::float16, 256>(lacuna::dense{}, {.shape = shape, .sink_logits = {-3, 0, 2, 20, 1, 0}});
  device_equals_host<lacuna::bfloat16, 192, 128>(lacuna::dense{}, {.shape = shape});
  device_equals_host<float, 64>(lacuna::dense{}, {.shape = shape, .sink_logits = {-3, 0, 2, 20, 1, 0}}, {.soft_cap = 2.5f});
}

TEST_CASE("decode on a GPU splits as the host does") {
  for (int const queries : {1, 3})
    device_equals_host<float, 16, 24>(lacuna::a_shape{100, 6000}, {.shape = {2, queries, 9000, 6, 2}, .key_lengths = {9000, 4100}}, {},
                                      true);
}

using decode_config = test::config_of<lacuna::bfloat16, 64, lacuna::a_shape>;

TEST_CASE("decode plans take the decode body where it covers them, and say why where it does not") {
  test::device_stream const stream;
  auto const exec = stream.exec();
  attention_shape const s{1, 1, 1000, 4, 2};
  lacuna::sparse_attention<decode_config> const attention{{4, 40}};
  CHECK(attention.plan_decode(exec, s).body() == "sm80 attend_decode");
  CHECK(attention.plan_decode<lacuna::paged_kv<lacuna::bfloat16>>(exec, s).body() == "sm80 attend_decode");
  CHECK(lacuna::sparse_attention<test::config_of<float, 64, lacuna::dense>>{}.plan_decode(exec, s).reason().find("elements are f32") !=
        std::string::npos);
  CHECK(lacuna::sparse_attention<test::config_of<lacuna::bfloat16, 64, lacuna::dense, 24>>{}.plan_decode(exec, s).reason().find(
            "head dims are 64 and 24") != std::string::npos);
}

TEST_CASE("prefill and decode on a GPU read pages as they read contiguous keys") {
  test::device_stream const stream;
  test::call_data<lacuna::bfloat16> data{.shape = {3, 5, 900, 8, 2, 64, 64}, .key_lengths = {900, 300, 0}};
  data.randomize(13);
  lacuna::sparse_attention<decode_config> const attention{{4, 700}};
  for (index_t const page : {16, 64, 128}) {
    test::page_pool<lacuna::bfloat16> const pool{data.shape, data.k, data.v, page, 7, data.key_lengths};
    test::call_on decode{stream.exec(), attention, data, true};
    auto const expected = decode.run_and_read();
    decode.poison();
    decode.run_with(pool.put(decode.at())).or_throw();
    CHECK(decode.result() == expected);

    test::place at{stream.exec()};
    auto const plan = attention.plan_prefill<lacuna::paged_kv<lacuna::bfloat16>>(stream.exec(), data.shape);
    lacuna::workspace const scratch{stream.exec(), plan.workspace_bytes()};
    decode.poison();
    attention.prefill(stream.exec(), plan, scratch, decode.io(), pool.put(at)).or_throw();
    auto const got = decode.result();
    CHECK(test::excess(got.out, expected.out, 2 * test::rounding<lacuna::bfloat16>, within<lacuna::bfloat16>) <= 1);
  }
}

TEST_CASE("a tree of query tokens on a GPU gives the host's output, or is refused by the body's name") {
  test::device_stream const stream;
  test::call_data<lacuna::bfloat16> data{.shape = {2, 6, 300, 8, 2, 64, 64}, .key_lengths = {300, 50}};
  data.randomize(17);
  std::mt19937_64 engine{3};
  std::vector<std::uint64_t> tree(2 * 6);
  for (auto& row : tree) row = engine();
  lacuna::sparse_attention<decode_config> const attention{{4, 100}};
  test::call_on on_device{stream.exec(), attention, data, true};
  test::call_on on_host{lacuna::host_executor{1}, attention, data, true};
  on_device.io().tree.rows = {static_cast<std::uint64_t const*>(on_device.at().put(tree)), 2, 6};
  on_host.io().tree.rows = {static_cast<std::uint64_t const*>(tree.data()), 2, 6};
  auto const got = on_device.run_and_read(), expected = on_host.run_and_read();
  CHECK(test::excess(got.out, expected.out, 2 * test::rounding<lacuna::bfloat16>, within<lacuna::bfloat16>) <= 1);
  CHECK(test::excess(got.lse, expected.lse, 2e-6f, 1e-4f) <= 1);

  test::call_on prefill{stream.exec(), attention, data};
  prefill.io().tree = on_device.io().tree;
  lacuna::status const status = prefill.run();
  CHECK(status.message().find("attend_prefill, which takes no tree of queries") != std::string::npos);
}

TEST_CASE("packed and padded batches on a GPU") {
  test::call_data<float> packed{.shape = {3, 66, 90, 6, 3}};
  packed.query_offsets = {0, 5, 5, 71}, packed.key_offsets = {0, 90, 91, 140};
  device_equals_host<float, 16>(lacuna::a_shape{2, 6}, packed);
  test::call_data<float> padded{.shape = {4, 70, 90, 4, 2}};
  padded.query_lengths = {70, 0, 3, 64}, padded.key_lengths = {80, 40, 1000, -5};
  device_equals_host<float, 16>(lacuna::tri_shape{2, 6, 20}, padded);
}

/// Lengths change between replays; the plan, the graph and every address stay.
template <class Pattern>
void replay_equals_direct(Pattern const& pattern, bool decode) {
  test::call_data<lacuna::bfloat16> data{.shape = {4, decode ? 1 : 70, 5000, 6, 2, 64, 64}, .key_lengths = {5000, 5000, 5000, 5000}};
  data.randomize(9);
  test::device_stream const stream;
  for (auto const& exec : executors_for<lacuna::bfloat16>(stream)) {
    test::call_on call{exec, lacuna::sparse_attention<test::config_of<lacuna::bfloat16, 64, Pattern>>{pattern}, data, decode};
    test::recorded_graph const graph{stream, [&] { return call.run(); }};
    for (std::vector<std::int32_t> const& lengths : {std::vector{100, -1, 0, 7}, {5000, 2049, 4096, 64}, {90000, 3000, 65, 1}}) {
      call.at().refill(const_cast<std::int32_t*>(call.io().lengths.key_lengths), lengths);
      call.poison();
      graph.launch();
      auto const replayed = call.result();
      call.poison();
      CHECK(call.run_and_read() == replayed);
      for (std::size_t i = 0; i < replayed.out.size(); ++i) REQUIRE(!std::isnan(replayed.out[i]));
    }
  }
}

TEST_CASE("a captured call replays at other lengths, bit for bit like a direct one") {
  for (bool const decode : {false, true}) {
    replay_equals_direct(lacuna::dense{}, decode);
    replay_equals_direct(lacuna::a_shape{64, 900}, decode);
    replay_equals_direct(lacuna::tri_shape{4, 100, 30}, decode);
    replay_equals_direct(lacuna::vertical_slash{.verticals = 60, .slashes = 90, .first = 4, .nearest = 16}, decode);
    replay_equals_direct(lacuna::block_sparse{5}, decode);
  }
}

TEST_CASE("lengths of 0 and below give output 0 and LSE -inf") {
  test::call_data<float> data{.shape = {4, 2, 100, 4, 2, 16, 16}, .key_lengths = {100, -1, 0, 7}};
  data.randomize(3);
  test::device_stream const stream;
  test::call_on call{stream.exec(), lacuna::sparse_attention<test::config_of<float, 16, lacuna::dense>>{}, data};
  auto const r = call.run_and_read();
  std::size_t const per_sequence = 2 * 4;
  for (std::size_t row = per_sequence; row < 3 * per_sequence; ++row) {
    CHECK(r.lse[row] == -lacuna::infinity);
    for (int d = 0; d < 16; ++d) REQUIRE(r.out[row * 16 + d] == 0);
  }
}

TEST_CASE("a plan names the tensor-core body of its target and why it is not another") {
  test::device_stream const stream;
  auto const own = stream.exec();
  if (own.target() == lacuna::target::portable_cuda) return;
  attention_shape const shape{1, 64, 64, 2, 2};
  lacuna::sparse_attention<test::config_of<lacuna::bfloat16, 64, lacuna::dense>> const attention;
  auto const plan = attention.plan_prefill(own.targeting(lacuna::target::sm80), shape);
  CHECK(plan.body() == "sm80 attend_prefill");
  CHECK(plan.reason() == "16-bit elements on tensor cores; the target is not Hopper");
  CHECK(attention.plan_prefill(own.targeting(lacuna::target::portable_cuda), shape).body() == "attend_row");
  if (own.target() != lacuna::target::sm90a) return;
  CHECK(attention.plan_prefill(own, shape).body() == "sm90 attend_prefill");
  CHECK_THROWS_AS(own.targeting(lacuna::target::sm80).targeting(lacuna::target::sm90a), lacuna::invalid_argument);
  lacuna::sparse_attention<test::config_of<lacuna::bfloat16, 64, lacuna::dense, 128>> const wide;
  CHECK(wide.plan_prefill(own, shape).reason() ==
        "16-bit elements on tensor cores; head dims are 64 and 128; the Hopper body takes 64 or 128 for both");
}

}  // namespace
