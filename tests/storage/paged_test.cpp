#include "support/attention_on.hpp"
#include "support/pages.hpp"

#include <doctest/doctest.h>

namespace {

using lacuna::attention_shape, lacuna::index_t;

/// The same call on contiguous keys and on the pages of a pool: equal bit for bit, since the same rows meet in the same order.
template <class T, int D, int Dv = D, class Pattern>
void equals_contiguous(Pattern const& pattern, test::call_data<T> data, bool decode = false) {
  data.shape.key_dim = D, data.shape.value_dim = Dv;
  data.randomize(11);
  lacuna::host_executor const exec{2};
  test::call_on contiguous{exec, lacuna::sparse_attention<test::config_of<T, D, Pattern, Dv>>{pattern}, data, decode};
  auto const expected = contiguous.run_and_read();
  for (index_t const page : {1, 16, 64, 128}) {
    test::place at{exec};
    test::page_pool<T> const pool{data.shape, data.k, data.v, page, static_cast<unsigned>(page), data.key_lengths};
    contiguous.poison();
    contiguous.run_with(pool.put(at)).or_throw();
    CAPTURE(page);
    CHECK(contiguous.result() == expected);
  }
}

attention_shape const shapes[] = {{1, 1, 1, 1, 1}, {2, 65, 65, 7, 1}, {1, 64, 200, 9, 3}, {3, 1, 130, 4, 2}, {1, 200, 333, 5, 1}};

template <class Pattern>
void on_shapes(Pattern const& pattern) {
  for (auto const& s : shapes) {
    equals_contiguous<float, 32>(pattern, {.shape = s});
    equals_contiguous<lacuna::bfloat16, 64, 24>(pattern, {.shape = s});
  }
}

TEST_CASE("static patterns on shuffled pages equal contiguous ones") {
  on_shapes(lacuna::dense{});
  on_shapes(lacuna::sliding_window{33});
  on_shapes(lacuna::a_shape{3, 40});
  on_shapes(lacuna::tri_shape{4, 8, 20});
}

TEST_CASE("built patterns on shuffled pages choose and attend as on contiguous ones") {
  on_shapes(lacuna::vertical_slash{.verticals = 20, .slashes = 30, .first = 3, .nearest = 9});
  on_shapes(lacuna::block_sparse_of<16>{3});
  equals_contiguous<float, 16>(
      lacuna::per_head<lacuna::a_shape, lacuna::block_sparse>{{lacuna::a_shape{4, 30}, lacuna::block_sparse{2}}}, {.shape = {2, 90, 210, 2, 1}});
}

TEST_CASE("decode over pages equals decode over contiguous keys, lengths from memory included") {
  for (int const queries : {1, 3})
    equals_contiguous<float, 16, 24>(lacuna::a_shape{100, 3000}, {.shape = {3, queries, 5000, 6, 2}, .key_lengths = {5000, 4100, 0}}, true);
  equals_contiguous<float, 16>(lacuna::dense{}, {.shape = {3, 30, 200, 4, 2}, .query_lengths = {30, 3, 8}, .key_lengths = {129, 200, 1}});
}

TEST_CASE("pools and tables are refused by name before anything is written") {
  attention_shape const shape{2, 6, 40, 4, 2, 16, 16};
  test::call_data<float> data{.shape = shape};
  data.randomize(3);
  lacuna::host_executor const exec{1};
  test::call_on call{exec, lacuna::sparse_attention<test::config_of<float, 16, lacuna::dense>>{}, data};
  test::page_pool<float> const pool{shape, data.k, data.v, 16, 5};
  test::place at{exec};
  auto const message = [&](auto const& change) {
    auto kv = pool.put(at);
    change(kv);
    auto const status = call.run_with(kv);
    CHECK(status.code() == lacuna::errc::invalid_argument);
    for (float const x : call.result().out) REQUIRE(std::isnan(x));
    return status.message();
  };
  CHECK(message([](auto& kv) { kv.keys.extent[1] = 24; }).find("pages of k hold 24 tokens; expected a power of two") == 0);
  CHECK(message([](auto& kv) { kv.values.extent[1] = 8; }).find("pages of v hold 8 tokens; those of k hold 16") == 0);
  CHECK(message([](auto& kv) { kv.values.extent[0] = 8; }).find("v is [8, 16, 2, 16]") == 0);
  CHECK(message([](auto& kv) { kv.keys.extent[2] = 3; }).find("k is [11, 16, 3, 16]") == 0);
  CHECK(message([](auto& kv) { kv.keys.data = nullptr; }).find("k is null") == 0);
  CHECK(message([](auto& kv) { kv.table.extent[1] = 2; }).find("table is [2, 2]; expected [2, at least 3]") == 0);
  CHECK(message([](auto& kv) { kv.table.extent[0] = 1; }).find("table is [1, 4]") == 0);
  CHECK(message([](auto& kv) { kv.table.data = nullptr; }).find("table is null") == 0);
  CHECK(message([&](auto& kv) { kv.values.data = call.io().out.data; }).find("out overlaps v") == 0);
  CHECK(message([](auto& kv) { const_cast<std::int32_t&>(kv.table(1, 2)) = 11; }).find("table has page 11 at [1, 2]; the pool has 11 pages") == 0);
  CHECK(message([](auto& kv) { const_cast<std::int32_t&>(kv.table(0, 0)) = -1; }).find("table has page -1 at [0, 0]") == 0);
  std::vector<std::int32_t> const offsets{0, 40, 80};
  call.io().lengths.key_offsets = offsets.data();
  CHECK(message([](auto&) {}).find("key_offsets are for packed keys") == 0);
}

}  // namespace
