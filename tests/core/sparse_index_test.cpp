#include <lacuna/core/sparse_index.hpp>

#include <doctest/doctest.h>

#include <vector>

namespace {

using lacuna::head_rule, lacuna::index_layout, lacuna::index_t, lacuna::sequence, lacuna::span, lacuna::sparse_index;

/// An index and its memory, filled with rubbish as a build would find it.
struct owned_index {
  std::vector<std::byte> memory;
  sparse_index view;

  explicit owned_index(index_layout const& layout)
      : memory(lacuna::index_bytes(layout), std::byte{0x5a}), view{make_index(layout, memory.data())} {
    for (int head = 0; head < layout.batch * layout.heads; ++head) {
      view.prefix[head] = 0, view.rules[head] = {}, view.column_count[head] = 0;
      view.shared_count[2 * head] = view.shared_count[2 * head + 1] = 0;
    }
    for (index_t row = 0; row < layout.batch * layout.heads * view.tiles; ++row) view.row_count[row] = 0;
  }

  std::vector<span> spans(sequence const& s, index_t tile) const {
    auto const row = view.row(s, 0, 0, tile);
    std::vector<span> list;
    for (int e = 0; e < row.span_count(); ++e)
      if (row.span_at(e).size() > 0) list.push_back(row.span_at(e));
    return list;
  }
};

sequence of(index_t queries, index_t keys) { return {0, queries, 0, keys}; }
using list = std::vector<span>;

TEST_CASE("a window is stored once and moves with the tile") {
  owned_index x{{.batch = 1, .heads = 1, .queries = 200, .tile_rows = 64, .capacity = {.shared_spans = 1}}};
  x.view.shared_count[0] = x.view.shared_count[1] = 1;
  x.view.shared[0] = {-9, 64};  // window 10, full tiles
  x.view.shared[1] = {-9, 8};   // 200 = 3 * 64 + 8
  sequence const s = of(200, 300);
  CHECK(x.spans(s, 0) == list{{91, 164}});
  CHECK(x.spans(s, 2) == list{{219, 292}});
  CHECK(x.spans(s, 3) == list{{283, 300}});
}

TEST_CASE("the prefix comes first and shared spans never repeat its keys") {
  owned_index x{{.batch = 1, .heads = 1, .queries = 20, .tile_rows = 10, .capacity = {.shared_spans = 2}}};
  x.view.prefix[0] = 7;
  x.view.shared_count[0] = 2;
  x.view.shared[0] = {-30, -2}, x.view.shared[1] = {0, 10};
  CHECK(x.spans(of(20, 20), 0) == list{{0, 7}, {7, 10}});  // the first shared span lies before key 0, the second starts in the prefix
  CHECK(x.spans(of(20, 20), 1) == list{{0, 7}, {7, 8}, {10, 20}});  // [-20, 8) loses the prefix
}

TEST_CASE("keys past the last query do not exist when causal, keys past the sequence never") {
  owned_index x{{.batch = 1, .heads = 1, .queries = 10, .tile_rows = 4, .capacity = {.spans = 1}}};
  for (int tile = 0; tile < 3; ++tile) x.view.row_count[tile] = 1, x.view.own[tile] = {2, 0x7fffffff};
  CHECK(x.spans(of(10, 30), 0) == list{{2, 24}});
  CHECK(x.spans(of(10, 30), 2) == list{{2, 30}});
  x.view.causal = false;
  CHECK(x.spans(of(10, 30), 0) == list{{2, 30}});
}

TEST_CASE("with more queries than keys the first tiles read nothing") {
  owned_index x{{.batch = 1, .heads = 1, .queries = 12, .tile_rows = 4, .capacity = {.spans = 1}}};
  for (int tile = 0; tile < 3; ++tile) x.view.row_count[tile] = 1, x.view.own[tile] = {0, 0x7fffffff};
  sequence const s = of(12, 5);  // positions -7 .. 4
  CHECK(x.spans(s, 0) == list{});
  CHECK(x.spans(s, 1) == list{{0, 1}});
  CHECK(x.spans(s, 2) == list{{0, 5}});
  CHECK(x.view.limit_of(s, 0) == 0);
}

TEST_CASE("a row that stands alone reads neither the prefix nor the shared spans") {
  owned_index x{{.batch = 1, .heads = 1, .queries = 8, .tile_rows = 8, .capacity = {.spans = 2, .shared_spans = 1}}};
  x.view.prefix[0] = 3;
  x.view.shared_count[0] = 1, x.view.shared[0] = {0, 8};
  x.view.own[0] = {16, 24}, x.view.own[1] = {32, 48};
  x.view.row_count[0] = 2;
  CHECK(x.spans(of(8, 60), 0) == list{{0, 3}, {16, 24}, {32, 48}, {52, 60}});
  x.view.row_count[0] = 2 | sparse_index::alone;
  CHECK(x.spans(of(8, 60), 0) == list{{16, 24}, {32, 48}});
  CHECK(x.view.row(of(8, 60), 0, 0, 0).span_keys() == 24);
}

TEST_CASE("tiles past the sequence read nothing") {
  owned_index x{{.batch = 1, .heads = 1, .queries = 64, .tile_rows = 8, .capacity = {.spans = 1}}};
  x.view.row_count[5] = 1, x.view.own[5] = {0, 100};
  CHECK(x.spans(of(20, 50), 5) == list{});
  CHECK(x.view.rows_of(of(20, 50), 2) == 4);
  CHECK(x.view.rows_of(of(20, 50), 5) == 0);
}

TEST_CASE("masks belong to a row's own spans; every token reads the others") {
  owned_index x{{.batch = 1, .heads = 1, .queries = 8, .tile_rows = 8, .capacity = {.spans = 2, .shared_spans = 1, .members = true}}};
  x.view.shared_count[0] = 1, x.view.shared[0] = {0, 8};
  x.view.row_count[0] = 2;
  x.view.own[0] = {0, 8}, x.view.own[1] = {8, 16};
  x.view.members[0] = 0b1010, x.view.members[1] = 0b1;
  auto const row = x.view.row(of(8, 60), 0, 0, 0);
  CHECK(row.span_count() == 4);
  CHECK(row.members(0) == ~std::uint64_t{0});
  CHECK(row.members(1) == 0b1010);
  CHECK(row.members(2) == 0b1);
  CHECK(row.members(3) == ~std::uint64_t{0});
}

TEST_CASE("columns belong to a head, the bits to its tiles") {
  owned_index x{{.batch = 1, .heads = 2, .queries = 8, .tile_rows = 4, .capacity = {.columns = 40}}};
  CHECK(x.view.column_words() == 2);
  x.view.column_count[1] = 34;
  for (int c = 0; c < 34; ++c) x.view.columns[40 + c] = 3 * c;
  auto* const bits = x.view.column_bits + x.view.row_at(0, 1, 1) * 2;
  bits[0] = 1u << 31, bits[1] = 1u << 1;
  auto const row = x.view.row(of(8, 200), 0, 1, 1);
  CHECK(row.column_count == 34);
  CHECK(row.columns[33] == 99);
  for (int c = 0; c < 34; ++c) CHECK(row.reads_column(c) == (c == 31 || c == 33));
}

TEST_CASE("rows may have spans anywhere, and empty ones need none") {
  owned_index x{{.batch = 1, .heads = 1, .queries = 12, .tile_rows = 4, .capacity = {.spans = 3}}};
  std::vector<index_t> const begin{0, 0, 2};
  x.view.row_begin = begin.data();
  x.view.row_count[1] = 2, x.view.row_count[2] = 1;
  x.view.own[0] = {0, 1}, x.view.own[1] = {3, 5}, x.view.own[2] = {6, 7};
  CHECK(x.spans(of(12, 12), 0) == list{});
  CHECK(x.spans(of(12, 12), 1) == list{{0, 1}, {3, 5}});
  CHECK(x.spans(of(12, 12), 2) == list{{6, 7}});
}

TEST_CASE("a rule sees sinks, the window and dense rows, and sees_all never promises too much") {
  for (auto const& rule : {head_rule{}, head_rule{.sinks = 3, .window = 5}, head_rule{.sinks = 0, .window = 1}, head_rule{2, 4, 20}}) {
    for (index_t i = 0; i < 30; ++i)
      for (index_t j = 0; j < 30; ++j) {
        bool const expected = rule.window == head_rule::unlimited || j < rule.sinks || i - j < rule.window || i >= rule.dense_from;
        REQUIRE(rule.visible(i, j) == expected);
      }
    for (index_t first = 0; first < 30; first += 3)
      for (index_t last = first; last < 30; last += 4)
        for (index_t begin = 0; begin < 30; begin += 2)
          for (index_t end = begin + 1; end <= 30; end += 3) {
            bool all = true;
            for (index_t i = first; i <= last; ++i)
              for (index_t j = begin; j < end; ++j) all &= rule.visible(i, j);
            if (rule.sees_all(first, last, begin, end)) REQUIRE(all);
          }
  }
}

TEST_CASE("memory is linear in the queries, and shared entries do not grow with them") {
  auto const bytes = [](index_t queries) {
    return lacuna::index_bytes(
        {.batch = 2, .heads = 8, .queries = queries, .capacity = {.spans = 3, .shared_spans = 500, .columns = 1000}});
  };
  std::size_t const fixed = bytes(0), once = bytes(1 << 16) - fixed, twice = bytes(1 << 17) - fixed;
  CHECK(twice <= 2 * once + 4096);
  CHECK(twice >= 2 * once - 4096);
  CHECK(fixed >= 2 * 8 * (2 * 500 * sizeof(span) + 1000 * sizeof(std::int32_t)));
  CHECK(once <= std::size_t{2} * 8 * (1 << 10) * (4 + 3 * sizeof(span) + 32 * 4) + 4096);
}

TEST_CASE("pieces of an index do not overlap and are aligned") {
  owned_index x{{.batch = 3, .heads = 2, .queries = 65, .capacity = {.spans = 3, .shared_spans = 2, .columns = 33, .members = true}}};
  auto const offset = [&](auto const* piece) { return reinterpret_cast<std::byte const*>(piece) - x.memory.data(); };
  std::vector<std::ptrdiff_t> const offsets{offset(x.view.row_count),
                                            offset(x.view.own),
                                            offset(x.view.members),
                                            offset(x.view.prefix),
                                            offset(x.view.rules),
                                            offset(x.view.shared_count),
                                            offset(x.view.shared),
                                            offset(x.view.column_count),
                                            offset(x.view.columns),
                                            offset(x.view.column_bits),
                                            static_cast<std::ptrdiff_t>(x.memory.size())};
  std::vector<std::ptrdiff_t> const sizes{12 * 4, 12 * 3 * 8, 12 * 3 * 8, 6 * 4, 6 * 12, 12 * 4, 12 * 2 * 8, 6 * 4, 6 * 33 * 4, 12 * 2 * 4};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    CHECK(offsets[i] % 256 == 0);
    CHECK(offsets[i] + sizes[i] <= offsets[i + 1]);
  }
}

}  // namespace
