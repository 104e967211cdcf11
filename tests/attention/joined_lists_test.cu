// Patterns whose lists serve few rows, on tensor cores: what the Hopper body reads joined gives the host's output.
#include "support/attention_on.hpp"
#include "support/device.cuh"
#include "support/row_error.hpp"
#include "support/scattered_blocks.hpp"

#include <doctest/doctest.h>

namespace {

using lacuna::attention_shape;
using element = lacuna::bfloat16;

template <int Tile, int Block, int D>
void device_equals_host(test::call_data<element> data, int members, bool causal = true) {
  data.shape.key_dim = data.shape.value_dim = D;
  data.randomize(11);
  using pattern = test::scattered_blocks<Tile, Block>;
  lacuna::sparse_attention<test::config_of<element, D, pattern>> const attention{pattern{}, {.causal = causal}};
  test::device_stream const stream;
  test::call_on on_host{lacuna::host_executor{2}, attention, data};
  test::call_on on_device{stream.exec(), attention, data};
  CAPTURE(data.shape.queries);
  CAPTURE(data.shape.query_heads);
  CAPTURE(on_device.plan().reason());
  if (stream.exec().target() == lacuna::target::sm90a && members > 1)
    CHECK(on_device.plan().reason().find("the lists of " + std::to_string(members) + " neighbouring") != std::string::npos);
  auto const expected = on_host.run_and_read(), got = on_device.run_and_read();
  CHECK(test::worst_row(got, expected, D) <= 1e-2);
  CHECK(test::excess(got.lse, expected.lse, 2e-6f, 1e-4f) <= 1);
}

TEST_CASE("lists of a token that 16 heads share are read joined") {
  for (attention_shape const& shape :
       {attention_shape{1, 1, 1, 16, 1}, {1, 63, 63, 16, 1}, {2, 65, 130, 32, 2}, {1, 131, 1500, 16, 1}, {2, 100, 64, 16, 1}}) {
    device_equals_host<1, 64, 64>({.shape = shape}, 8);
    device_equals_host<1, 16, 64>({.shape = shape}, 8);
    device_equals_host<1, 128, 64>({.shape = shape}, 8, false);
  }
}

TEST_CASE("lists of a few rows are read joined, whatever the group") {
  for (int const keys : {64, 700}) {
    device_equals_host<1, 8, 64>({.shape = {1, 200, keys, 2, 2}}, 64);
    device_equals_host<1, 64, 64>({.shape = {1, 133, keys, 7, 1}}, 18);
    device_equals_host<8, 8, 64>({.shape = {1, 133, keys, 4, 2}}, 8);
    device_equals_host<8, 32, 64>({.shape = {1, 133, keys, 9, 3}}, 5);
    device_equals_host<32, 64, 64>({.shape = {2, 130, keys, 3, 3}}, 4);
    device_equals_host<64, 64, 64>({.shape = {1, 300, keys, 2, 2}}, 2);
    device_equals_host<64, 64, 64>({.shape = {1, 300, keys, 4, 2}}, 1);
  }
}

TEST_CASE("joined lists of ragged and packed batches") {
  device_equals_host<1, 16, 64>({.shape = {4, 70, 90, 16, 2}, .query_lengths = {70, 0, 3, 64}, .key_lengths = {80, 40, 90, 0}}, 16);
  device_equals_host<1, 64, 64>({.shape = {3, 100, 100, 16, 1}, .query_offsets = {0, 5, 5, 105}, .key_offsets = {0, 90, 91, 191}}, 8);
}

}  // namespace
