#include <lacuna/core/shape.hpp>

#include <doctest/doctest.h>

#include <array>
#include <string>

namespace {

using lacuna::attention_shape;

std::string refusal(attention_shape const& s) {
  try {
    lacuna::check(s);
    return "";
  } catch (lacuna::invalid_argument const& error) {
    return error.what();
  }
}

TEST_CASE("query heads map to the kv head of their group") {
  for (auto const& [heads, kv, group] : {std::array{12, 2, 6}, {28, 4, 7}, {40, 8, 5}, {9, 3, 3}, {7, 1, 7}, {16, 16, 1}}) {
    attention_shape const s{1, 1, 1, heads, kv, 64, 64};
    CHECK(s.group() == group);
    for (int h = 0; h < heads; ++h) REQUIRE(s.kv_head(h) == h / group);
    CHECK(refusal(s) == "");
  }
}

TEST_CASE("lists per layer, kv head or query head") {
  for (int h = 0; h < 12; ++h) {
    CHECK(lacuna::list_head(h, 12, 1) == 0);
    CHECK(lacuna::list_head(h, 12, 2) == h / 6);
    CHECK(lacuna::list_head(h, 12, 12) == h);
  }
}

TEST_CASE("shapes that no body takes are refused by name") {
  attention_shape const good{2, 3, 4, 6, 3, 64, 64};
  CHECK(refusal(good) == "");
  auto const bad = [&](auto member, auto value) {
    attention_shape s = good;
    s.*member = value;
    return refusal(s);
  };
  CHECK(refusal({1, 1, 1, 33, 2, 64, 64}) == "query_heads is 33; expected a positive multiple of kv_heads 2");
  CHECK(refusal({1, 1, 1, 3, 2, 64, 64}) == "query_heads is 3; expected a positive multiple of kv_heads 2");
  CHECK(bad(&attention_shape::query_heads, 32) == "query_heads is 32; expected a positive multiple of kv_heads 3");
  CHECK(bad(&attention_shape::query_heads, 0).starts_with("query_heads is 0"));
  CHECK(bad(&attention_shape::query_heads, -6).starts_with("query_heads is -6"));
  CHECK(bad(&attention_shape::kv_heads, 0).starts_with("kv_heads is 0"));
  CHECK(bad(&attention_shape::kv_heads, -1).starts_with("kv_heads is -1"));
  CHECK(bad(&attention_shape::batch, -1).starts_with("batch is -1"));
  CHECK(bad(&attention_shape::queries, -1).starts_with("queries is -1"));
  CHECK(bad(&attention_shape::keys, (lacuna::index_t{1} << 30) + 1).starts_with("keys is 1073741825"));
  for (int const dim : {-8, 0, 4, 63, 100, 264}) {
    CHECK(bad(&attention_shape::key_dim, dim).starts_with("key_dim is " + std::to_string(dim)));
    CHECK(bad(&attention_shape::value_dim, dim).starts_with("value_dim is " + std::to_string(dim)));
  }
  for (int const dim : {8, 24, 40, 256}) CHECK(bad(&attention_shape::key_dim, dim) == "");
}

TEST_CASE("without lengths every sequence is full") {
  attention_shape const s{2, 5, 9, 1, 1, 8, 8};
  auto const q = lacuna::sequence_at({}, s, 1);
  CHECK(q.queries == 5);
  CHECK(q.keys == 9);
  CHECK(q.first_query == 0);
  CHECK(q.first_key == 0);
}

TEST_CASE("queries are the last positions, so with more queries than keys the first stand before position 0") {
  attention_shape const s{1, 5, 3, 1, 1, 8, 8};
  auto const q = lacuna::sequence_at({}, s, 0);
  CHECK(q.position(0) == -2);
  CHECK(q.position(4) == 2);
}

TEST_CASE("lengths are held within 0 and the capacity") {
  attention_shape const s{4, 1, 100, 1, 1, 8, 8};
  std::int32_t const lengths[] = {100, -1, 0, 1'000'000};
  lacuna::sequence_lengths const l{.key_lengths = lengths};
  CHECK(lacuna::sequence_at(l, s, 0).keys == 100);
  CHECK(lacuna::sequence_at(l, s, 1).keys == 0);
  CHECK(lacuna::sequence_at(l, s, 2).keys == 0);
  CHECK(lacuna::sequence_at(l, s, 3).keys == 100);
}

TEST_CASE("packed sequences start at their offsets, and lengths win over offsets") {
  attention_shape const s{3, 10, 20, 1, 1, 8, 8};
  std::int32_t const queries[] = {0, 4, 4, 14}, keys[] = {0, 20, 21, 30}, shorter[] = {3, 0, 2};
  auto const whole = lacuna::sequence_at({.query_offsets = queries, .key_offsets = keys}, s, 2);
  CHECK(whole.first_query == 4);
  CHECK(whole.queries == 10);
  CHECK(whole.first_key == 21);
  CHECK(whole.keys == 9);
  auto const cut = lacuna::sequence_at({.query_offsets = queries, .key_offsets = keys, .query_lengths = shorter}, s, 2);
  CHECK(cut.first_query == 4);
  CHECK(cut.queries == 2);
  std::int32_t const wrong[] = {0, 4, 2, 1'000'000'000};
  CHECK(lacuna::sequence_at({.query_offsets = wrong}, s, 1).queries == 0);
  CHECK(lacuna::sequence_at({.query_offsets = wrong}, s, 2).queries == 10);
}

}  // namespace
