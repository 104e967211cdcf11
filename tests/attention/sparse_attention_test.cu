#include "support/attention_on.hpp"
#include "support/device.cuh"

#include <doctest/doctest.h>

namespace {

using lacuna::attention_shape, lacuna::index_t;

/// The device's index is the host's, and its output is the host's within rounding.
template <class T, int D, int Dv = D, class Pattern>
void device_equals_host(Pattern const& pattern, test::call_data<T> data, lacuna::attention_options options = {}, bool decode = false) {
  data.shape.key_dim = D, data.shape.value_dim = Dv;
  data.randomize(5);
  using config = test::config_of<T, D, Pattern, Dv>;
  lacuna::sparse_attention<config> const attention{pattern, options};
  test::device_stream const stream;
  test::call_on on_device{stream.exec(), attention, data, decode};
  test::call_on on_host{lacuna::host_executor{2}, attention, data, decode};
  auto const got = on_device.run_and_read(), expected = on_host.run_and_read();
  CAPTURE(data.shape.queries);
  CAPTURE(data.shape.keys);
  CAPTURE(data.shape.query_heads);
  CHECK(on_device.lists() == on_host.lists());
  CHECK(test::excess<T>(got, expected) <= 2);  // each may be 1 from the truth
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

TEST_CASE("element types, head dims, soft cap and sinks on a GPU") {
  attention_shape const shape{1, 70, 100, 6, 2};
  device_equals_host<lacuna::bfloat16, 64>(lacuna::a_shape{4, 40}, {.shape = shape});
  device_equals_host<lacuna::float16, 128>(lacuna::dense{}, {.shape = shape});
  device_equals_host<float, 8, 256>(lacuna::dense{}, {.shape = shape});
  device_equals_host<float, 256, 8>(lacuna::dense{}, {.shape = shape});
  device_equals_host<lacuna::bfloat16, 96, 72>(lacuna::dense{}, {.shape = shape}, {.scale = 0.3f});
  device_equals_host<float, 64>(lacuna::dense{}, {.shape = shape, .sink_logits = {-3, 0, 2, 20, 1, 0}}, {.soft_cap = 2.5f});
}

TEST_CASE("decode on a GPU splits as the host does") {
  for (int const queries : {1, 3})
    device_equals_host<float, 16, 24>(lacuna::a_shape{100, 6000}, {.shape = {2, queries, 9000, 6, 2}, .key_lengths = {9000, 4100}}, {},
                                      true);
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
  test::call_on call{stream.exec(), lacuna::sparse_attention<test::config_of<lacuna::bfloat16, 64, Pattern>>{pattern}, data, decode};
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

TEST_CASE("a captured call replays at other lengths, bit for bit like a direct one") {
  for (bool const decode : {false, true}) {
    replay_equals_direct(lacuna::dense{}, decode);
    replay_equals_direct(lacuna::a_shape{64, 900}, decode);
    replay_equals_direct(lacuna::tri_shape{4, 100, 30}, decode);
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

}  // namespace
