#include <lacuna/pattern/a_shape.hpp>
#include <lacuna/pattern/break_even.hpp>
#include <lacuna/pattern/dense.hpp>
#include <lacuna/pattern/tri_shape.hpp>

#include <doctest/doctest.h>

namespace {

using lacuna::index_t;

lacuna::attention_shape prefill(index_t tokens) {
  return {.queries = tokens, .keys = tokens, .query_heads = 8, .kv_heads = 2, .key_dim = 64, .value_dim = 64};
}

TEST_CASE("short inputs are cheaper dense, long ones are not") {
  lacuna::vertical_slash const slashes{.verticals = 1000, .slashes = 6096};
  CHECK(!lacuna::pays_off(prefill(4096), slashes));
  CHECK(lacuna::pays_off(prefill(1 << 17), slashes));
  index_t const length = lacuna::break_even(prefill(1 << 20), slashes);
  CHECK(length > 7'000);
  CHECK(length < 40'000);
  CHECK(!lacuna::pays_off(prefill(length / 2), slashes));
  CHECK(lacuna::pays_off(prefill(length), slashes));
}

TEST_CASE("a smaller budget breaks even earlier") {
  lacuna::attention_shape const shape = prefill(1 << 20);
  CHECK(lacuna::break_even(shape, lacuna::a_shape{64, 960}) < lacuna::break_even(shape, lacuna::a_shape{1024, 4096}));
  CHECK(lacuna::break_even(shape, lacuna::vertical_slash{.verticals = 500, .slashes = 500}) <
        lacuna::break_even(shape, lacuna::vertical_slash{.verticals = 1000, .slashes = 2000}));
  CHECK(lacuna::break_even(shape, lacuna::block_sparse{16}) < lacuna::break_even(shape, lacuna::block_sparse{100}));
  CHECK(lacuna::break_even(shape, lacuna::block_sparse{100}) > 6400);
}

TEST_CASE("a window costs what it reads: no choosing, so it pays as soon as tiles skip keys") {
  index_t const length = lacuna::break_even(prefill(1 << 20), lacuna::a_shape{64, 960});
  CHECK(length > 1024);
  CHECK(length < 2048);
  CHECK(lacuna::break_even(prefill(1 << 20), lacuna::tri_shape{64, 960, 64}) >= length);
}

TEST_CASE("dense attention never beats itself, nor does a window over everything") {
  CHECK(lacuna::break_even(prefill(1 << 20), lacuna::dense{}) == lacuna::never_breaks_even);
  CHECK(lacuna::break_even(prefill(1 << 20), lacuna::a_shape{0, 1 << 30}) == lacuna::never_breaks_even);
}

TEST_CASE("heads of several kinds are summed") {
  using mixed = lacuna::per_head<lacuna::a_shape, lacuna::dense>;
  lacuna::attention_shape shape = prefill(1 << 20);
  shape.query_heads = 2, shape.kv_heads = 1;
  index_t const alone = lacuna::break_even(shape, lacuna::a_shape{64, 960});
  CHECK(lacuna::break_even(shape, mixed{{lacuna::a_shape{64, 960}, lacuna::a_shape{64, 960}}}) == alone);
  CHECK(lacuna::break_even(shape, mixed{{lacuna::a_shape{64, 960}, lacuna::dense{}}}) > alone);
}

TEST_CASE("an estimate that looks at as many queries as the chunk holds never pays") {
  lacuna::attention_shape chunk = prefill(1 << 20);
  chunk.queries = 64;
  CHECK(lacuna::break_even(chunk, lacuna::vertical_slash{.verticals = 500, .slashes = 500}) == lacuna::never_breaks_even);
  CHECK(lacuna::break_even(chunk, lacuna::a_shape{64, 960}) < lacuna::never_breaks_even);
}

}  // namespace
