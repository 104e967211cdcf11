#include <lacuna/kernels/decode_parts.hpp>

#include <doctest/doctest.h>

namespace {

using lacuna::decode_parts, lacuna::index_t;

index_t const lengths[] = {0, 1, 63, 255, 256, 257, 3328, 16383, 16384, 16385, 20000, 262143, 262144, 262145, 1 << 20, (1 << 20) + 1, 1 << 30};

TEST_CASE("parts follow each other, none is empty, and together they are the list") {
  for (index_t const keys : lengths) {
    int const count = decode_parts::count(keys);
    CAPTURE(keys);
    std::int32_t end = 0;
    for (int p = 0; p < count; ++p) {
      auto const part = decode_parts::part(keys, p);
      REQUIRE(part.begin == end);
      REQUIRE((part.size() > 0 || keys == 0));
      REQUIRE(part.size() <= decode_parts::most_keys);
      end = part.end;
    }
    CHECK(end == keys);
  }
}

TEST_CASE("no list has more parts than the longest that a plan allows says") {
  for (index_t const capacity : lengths)
    for (index_t keys = 0; keys <= capacity; keys += 1 + keys / 97) REQUIRE(decode_parts::count(keys) <= decode_parts::most(capacity));
}

TEST_CASE("a million keys of one head fill two blocks on each of 128 multiprocessors, and short lists take few") {
  CHECK(decode_parts::count(1 << 20) == 256);
  CHECK(decode_parts::count(3328) == 13);
  CHECK(decode_parts::count(200) == 1);
}

}  // namespace
