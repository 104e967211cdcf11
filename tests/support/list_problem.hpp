#pragma once
#include "support/place.hpp"

#include <lacuna/kernels/union_lists.hpp>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace test {

using lacuna::index_t;

/// An index with lists drawn at random.
struct list_recipe {
  lacuna::attention_shape shape;
  int members, tile_rows = 1, granularity = 8;
  int spans = 5, shared_spans = 0, longest = 3;  // blocks of an own span
  bool prefix = false, causal = true;
  std::vector<std::int32_t> query_lengths = {}, key_lengths = {};
  unsigned seed = 1;
};

class list_problem {
 public:
  explicit list_problem(list_recipe const& r) : recipe{r}, engine_{r.seed} {
    layout = {.batch = static_cast<int>(r.shape.batch),
              .heads = r.shape.kv_heads,
              .queries = r.shape.queries,
              .tile_rows = r.tile_rows,
              .granularity = r.granularity,
              .causal = r.causal,
              .capacity = {.spans = r.spans, .shared_spans = r.shared_spans}};
    joined_layout = layout;
    joined_layout.tile_rows *= r.members;
    joined_layout.capacity = lacuna::union_lists::joined_capacity(layout, r.members, r.shape.keys);
    memory.assign(lacuna::index_bytes(layout), std::byte{0x5a});
    auto x = index();
    for (index_t b = 0; b < r.shape.batch; ++b)
      for (int h = 0; h < x.heads; ++h) choose_head(x, b, h);
  }

  lacuna::sequence_lengths lengths() const {
    auto const or_null = [](auto const& v) { return v.empty() ? nullptr : v.data(); };
    return {nullptr, nullptr, or_null(recipe.query_lengths), or_null(recipe.key_lengths)};
  }
  lacuna::sequence sequence(index_t b) const { return lacuna::sequence_at(lengths(), recipe.shape, b); }
  lacuna::sparse_index index() const { return lacuna::make_index(layout, const_cast<std::byte*>(memory.data())); }

  list_recipe recipe;
  lacuna::index_layout layout, joined_layout;
  std::vector<std::byte> memory;

 private:
  int below(index_t n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }

  void choose_head(lacuna::sparse_index& x, index_t b, int h) {
    auto const s = sequence(b);
    index_t const head = x.head_at(b, h);
    x.rules[head] = {.sinks = below(9), .window = 100 + below(9)};
    x.prefix[head] = recipe.prefix ? below(5 * recipe.granularity) : 0;
    std::int32_t const start = -20 * x.capacity.shared_spans + below(30);  // the last may lie past every row of the tile
    for (int partial = 0; x.capacity.shared_spans && partial < 2; ++partial) {
      std::int32_t const rows = partial ? static_cast<std::int32_t>(s.queries % x.tile_rows) : x.tile_rows;
      x.shared_count[head * 2 + partial] = x.capacity.shared_spans;
      for (int i = 0; i < x.capacity.shared_spans; ++i)
        x.shared[x.shared_at(head, partial) + i] = {start + 19 * i, start + 19 * i + 3 + rows};
    }
    for (index_t tile = 0; tile < x.tiles; ++tile)
      if (x.rows_of(s, tile) > 0) choose_row(x, s, head, tile);  // other rows stay what their memory holds
  }

  /// Ascending spans of whole blocks between prefix and shared spans; also none at all, touching ones and ones that end past everything.
  void choose_row(lacuna::sparse_index& x, lacuna::sequence const& s, index_t head, index_t tile) {
    index_t const row = head * x.tiles + tile, limit = x.limit_of(s, tile);
    bool const alone = below(4) == 0;
    index_t const shared_begin = s.position(tile * x.tile_rows) + (x.capacity.shared_spans ? x.shared[x.shared_at(head, 0)].begin : 0);
    index_t const from = alone ? 0 : x.prefix[head], to = alone || !x.capacity.shared_spans ? limit : std::max(from, shared_begin);
    std::int32_t const g = recipe.granularity;
    std::int32_t key = static_cast<std::int32_t>(from), count = 0;
    for (; count < x.capacity.spans && below(9) > 0; ++count) {
      if (count > 0 || below(2)) key = (key / g + 1 + below(limit / g / x.capacity.spans + 2)) * g;
      if (key >= to) break;
      std::int32_t end = (key / g + 1 + below(recipe.longest)) * g;
      if (to < limit) end = std::min(end, static_cast<std::int32_t>(to));
      if (to >= limit && end >= limit && below(2)) end = 0x7fffffff;
      x.own[x.own_at(row) + count] = {key, end};
      key = end;
      if (end >= to) {
        ++count;
        break;
      }
    }
    x.row_count[row] = count | (alone ? lacuna::sparse_index::alone : 0);
  }

  std::mt19937 engine_;
};

/// The joined lists' memory, poisoned before.
template <class Exec>
std::vector<std::byte> join(Exec const& exec, list_problem const& p) {
  place<Exec> at{exec};
  std::vector<std::byte> const poison(lacuna::index_bytes(p.joined_layout), std::byte{0x5a});
  std::byte* const memory = at.put(poison);
  lacuna::sequence_lengths const lengths{nullptr, nullptr, at.put(p.recipe.query_lengths), at.put(p.recipe.key_lengths)};
  lacuna::union_lists const body{p.recipe.shape, lengths, lacuna::make_index(p.layout, at.put(p.memory)),
                                 lacuna::make_index(p.joined_layout, memory)};
  exec.launch({body.blocks(), lacuna::union_lists::team_size}, body).or_throw();
  return at.get(memory, poison.size());
}

/// What an index may hold, in small.
inline std::vector<std::pair<std::string, list_recipe>> list_recipes() {
  return {
      {"a list a token, pairs", {.shape = {1, 33, 90, 4, 2}, .members = 2}},
      {"a list a token, 8 of them, blocks of 64", {.shape = {2, 70, 1000, 16, 1}, .members = 8, .granularity = 64}},
      {"33 members take two words", {.shape = {1, 100, 300, 3, 1}, .members = 33}},
      {"64 members", {.shape = {1, 200, 200, 1, 1}, .members = 64, .granularity = 16}},
      {"more queries than keys", {.shape = {1, 90, 40, 2, 2}, .members = 5}},
      {"one query, one key", {.shape = {1, 1, 1, 1, 1}, .members = 8}},
      {"no keys", {.shape = {1, 20, 0, 1, 1}, .members = 8}},
      {"tiles of 16 rows, long spans", {.shape = {1, 130, 333, 7, 7}, .members = 8, .tile_rows = 16, .granularity = 16, .longest = 20}},
      {"not causal", {.shape = {1, 65, 170, 2, 1}, .members = 7, .causal = false}},
      {"odd prefixes", {.shape = {1, 65, 400, 2, 2}, .members = 6, .prefix = true}},
      {"shared spans", {.shape = {1, 65, 400, 2, 1}, .members = 4, .tile_rows = 3, .shared_spans = 3, .prefix = true}},
      {"shared spans, not causal",
       {.shape = {2, 30, 300, 2, 1}, .members = 9, .granularity = 24, .shared_spans = 2, .prefix = true, .causal = false}},
      {"ragged batch",
       {.shape = {4, 70, 500, 4, 2}, .members = 8, .query_lengths = {70, 0, 3, 64}, .key_lengths = {300, 40, 1000, -5}, .seed = 3}},
      {"ragged batch with shared spans",
       {.shape = {4, 70, 500, 4, 2},
        .members = 16,
        .tile_rows = 2,
        .shared_spans = 1,
        .prefix = true,
        .query_lengths = {70, 0, 3, 64},
        .key_lengths = {300, 40, 1000, 64}}},
      {"several windows of keys", {.shape = {1, 17, 60000, 1, 1}, .members = 8, .spans = 40, .longest = 200}},
      {"several windows of keys, two words",
       {.shape = {1, 40, 50000, 1, 1}, .members = 40, .spans = 30, .shared_spans = 1, .prefix = true}},
      {"any keys, pairs of tiles", {.shape = {2, 300, 337, 3, 3}, .members = 2, .tile_rows = 64, .granularity = 1, .spans = 9}},
      {"any keys, prefixes and shared spans",
       {.shape = {1, 129, 400, 2, 1}, .members = 3, .tile_rows = 16, .granularity = 1, .shared_spans = 2, .prefix = true}},
      {"any keys, not causal", {.shape = {1, 40, 4000, 1, 1}, .members = 64, .granularity = 1, .longest = 900, .causal = false}},
      {"lists that may be empty only", {.shape = {1, 40, 300, 1, 1}, .members = 8, .spans = 0}},
  };
}

}  // namespace test
