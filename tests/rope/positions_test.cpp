// Ten tokens, 0 .. 9, worked out by hand.
#include <lacuna/rope/attend_rope.hpp>

#include <doctest/doctest.h>

namespace {

using lacuna::attend_rope;
using lacuna::attend_style;
using lacuna::attended_list;
using lacuna::branch;
using lacuna::index_t;
using lacuna::rope_positions;
using lacuna::scan_rope;
using lacuna::scan_style;

TEST_CASE("scan, relative: two distances exist") {
  scan_rope const r{.style = scan_style::relative, .distance = 3};
  CHECK(r.positions(9, {.position = 2, .side = branch::left}, 9) == rope_positions{4, 0});
  CHECK(r.positions(9, {.position = 2, .side = branch::right}, 9) == rope_positions{4, 1});
  CHECK(r.query_turn(0, 9, 1, 9) == 4);
  CHECK(r.query_turn(1, 9, 1, 9) == 3);
  CHECK(r.positions_needed(1 << 20, 5) == 5);
}

TEST_CASE("scan, chunk-indexed: tokens 2 .. 5 in chunks of 2, the last chunk stands the distance before the query") {
  scan_rope r{.style = scan_style::chunk_indexed, .distance = 3};
  CHECK(r.positions(9, {.position = 2, .chunk = 0, .chunks = 2}, 9) == rope_positions{5, 1});
  CHECK(r.positions(9, {.position = 5, .chunk = 1, .chunks = 2}, 9) == rope_positions{5, 2});
  CHECK(r.positions(4, {.position = 2, .chunk = 0, .chunks = 2}, 9) == rope_positions{4, 1});  // never behind its true position
  r.first_number = 0;
  CHECK(r.positions(9, {.position = 5, .chunk = 1, .chunks = 2}, 9) == rope_positions{5, 1});
}

TEST_CASE("scan, infllm: one distance for all") {
  scan_rope const r{.style = scan_style::infllm, .distance = 3};
  CHECK(r.positions(9, {.position = 2}, 9) == rope_positions{3, 0});
  CHECK(r.positions(7, {.position = 5}, 9) == rope_positions{3, 0});
}

TEST_CASE("dynamic extend: 9 is the last position, 4 were trained, so 3 tokens share a position beyond the nearest 2") {
  scan_rope const scan{.style = scan_style::dynamic_extend, .trained = 4, .near = 2};
  attend_rope const attend{.style = attend_style::dynamic_extend, .trained = 4, .near = 2};
  attended_list const list{.first = 8, .limit = 10, .keys = 10, .longest = 9};
  // far query 9: 9/3 + 2 - 2/3 = 5
  index_t const key[10] = {0, 0, 0, 1, 1, 1, 2, 2, 8, 9};
  for (index_t t = 0; t < 10; ++t) {
    rope_positions const right{t >= 8 ? 9 : 5, key[t]};
    CHECK(scan.positions(9, {.position = t}, 9) == right);
    CHECK(attend.positions(9, t, t, list) == right);
  }
  CHECK(scan.positions(3, {.position = 0}, 3) == rope_positions{3, 0});  // within the trained length nothing changes
  scan_rope const paper{.style = scan_style::dynamic_extend, .trained = 4, .near = 0};
  CHECK(paper.positions(9, {.position = 9}, 9) == rope_positions{3, 3});
}

/// A tile of queries 7 .. 9 that reads key 0 (sink), keys 2 and 3 (kept) and keys 5 .. 9 (window of 2 before the tile).
constexpr attended_list list{.first = 7, .limit = 10, .keys = 8, .longest = 9};
constexpr index_t listed[8] = {0, 2, 3, 5, 6, 7, 8, 9};

TEST_CASE("attend, streaming: listed keys stand in a row and the newest one where the query stands") {
  attend_rope const r{.style = attend_style::streaming, .window = 2};
  index_t const stands[8] = {2, 3, 4, 5, 6, 7, 8, 9};  // 0, 2 and 3 close up with 5
  for (index_t rank = 0; rank < 8; ++rank)
    for (index_t const p : {7, 8, 9}) {
      auto const at = r.positions(p, listed[rank], rank, list);
      CHECK(at.query - at.key == p - stands[rank]);
    }
  CHECK(r.positions_needed(1 << 20, 8, 3) == 8);
}

TEST_CASE("attend, infllm: keys before the window share its first position") {
  attend_rope const r{.style = attend_style::infllm, .window = 2};
  index_t const shared[8] = {5, 5, 5, 5, 6, 7, 8, 9};
  for (index_t rank = 0; rank < 8; ++rank) {
    auto const at = r.positions(8, listed[rank], rank, list);
    CHECK(at.query - at.key == 8 - shared[rank]);
  }
  attended_list const early{.first = 1, .limit = 4, .keys = 4, .longest = 9};  // the window reaches back beyond the text
  for (index_t t = 0; t < 4; ++t) CHECK(r.positions(3, t, t, early).query - r.positions(3, t, t, early).key == 3 - t);
}

TEST_CASE("attend, absolute and as given") {
  attend_rope const r{.style = attend_style::absolute};
  CHECK(r.positions(8, 2, 1, list) == rope_positions{8, 2});
  CHECK(r.positions_needed(10, 8, 3) == 10);
  CHECK_FALSE(attend_rope{}.turns());
  CHECK(attend_rope{}.positions_needed(1 << 20, 8, 3) == 0);
}

TEST_CASE("amounts that do not fit are refused with numbers") {
  lacuna::host_rope_table const table{{1.0, 0.1}, 1025};
  scan_rope const scan{.style = scan_style::relative, .table = table.view()};
  CHECK_THROWS_WITH_AS(scan.check(4, 4096, 8), "scan rope has a table of 1025 positions; this style reaches 1026",
                       lacuna::invalid_argument);
  CHECK_NOTHROW((scan_rope{.style = scan_style::infllm, .table = table.view()}.check(4, 4096, 8)));
  attend_rope const attend{.style = attend_style::absolute, .table = table.view()};
  CHECK_THROWS_WITH_AS(attend.check(4, 4096, 512, 64), "attend rope has a table of 1025 positions; this style reaches 4096",
                       lacuna::invalid_argument);
  CHECK_NOTHROW(attend.check(4, 1025, 512, 64));
}

}  // namespace
