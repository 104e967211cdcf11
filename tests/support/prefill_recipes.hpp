#pragma once
#include "support/row_error.hpp"

#include <vector>

namespace test {

/// Calls that fill the 64 or 128 rows of a tensor-core prefill body in every way.
inline std::vector<attend_recipe> prefill_recipes(std::vector<lists> const& kinds, int key_dim, int value_dim) {
  auto const shape = [&](index_t batch, index_t queries, index_t keys, int heads, int kv) {
    return lacuna::attention_shape{batch, queries, keys, heads, kv, key_dim, value_dim};
  };
  std::vector<attend_recipe> all;
  for (auto const kind : kinds) {
    for (index_t const n : {1, 63, 64, 65, 129, 300}) all.push_back({shape(1, n, n, 2, 2), kind});
    all.push_back({shape(2, 130, 70, 2, 1), kind});
    all.push_back({shape(1, 3, 1, 1, 1), kind});
    all.push_back({.shape = shape(1, 200, 333, 7, 1), .lists = kind, .list_heads = 1});
    all.push_back({.shape = shape(2, 150, 150, 9, 3), .lists = kind, .tile_rows = 16, .list_heads = 3});
    all.push_back({.shape = shape(1, 66, 66, 16, 1), .lists = kind, .tile_rows = 8, .list_heads = 1});
    all.push_back({.shape = shape(2, 65, 170, 2, 2), .lists = kind, .causal = false});
    all.push_back({.shape = shape(1, 90, 180, 4, 1), .lists = kind, .list_heads = 1, .soft_cap = 1.5f, .sink_logits = true});
    all.push_back({.shape = shape(4, 70, 100, 4, 2), .lists = kind, .key_lengths = {100, -1, 0, 7}});
    all.push_back({.shape = shape(3, 80, 130, 4, 2), .lists = kind, .query_offsets = {0, 80, 80, 97}, .key_offsets = {0, 130, 140, 157}});
  }
  return all;
}

}  // namespace test
