#pragma once
#include "support/place.hpp"

#include <lacuna/core/element.hpp>
#include <lacuna/storage/paged.hpp>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace test {

/// Keys and values of a padded batch, scattered over the shuffled pages of a pool. Tokens that nobody has are NaN, table entries past a
/// sequence's end point nowhere.
template <class T>
struct page_pool {
  lacuna::attention_shape shape;
  lacuna::index_t page_size, pages_each, pages;
  std::vector<T> keys, values;
  std::vector<std::int32_t> table;

  page_pool(lacuna::attention_shape const& s, std::vector<T> const& k, std::vector<T> const& v, lacuna::index_t page_tokens, unsigned seed,
            std::vector<std::int32_t> const& key_lengths = {})
      : shape{s}, page_size{page_tokens}, pages_each{lacuna::ceil_div(s.keys, page_tokens) + 1}, pages{s.batch * pages_each + 3} {
    T const nan = lacuna::from_float<T>(std::numeric_limits<float>::quiet_NaN());
    keys.assign(pages * page_size * s.kv_heads * s.key_dim, nan), values.assign(pages * page_size * s.kv_heads * s.value_dim, nan);
    std::vector<std::int32_t> order(pages);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937{seed});
    table.assign(s.batch * pages_each, 0x7fffffff);
    for (lacuna::index_t b = 0, next = 0; b < s.batch; ++b) {
      lacuna::index_t const count = key_lengths.empty() ? s.keys : std::clamp<lacuna::index_t>(key_lengths[b], 0, s.keys);
      for (lacuna::index_t slot = 0; slot < count; ++slot) {
        if (slot % page_size == 0) table[b * pages_each + slot / page_size] = order[next++];
        lacuna::index_t const to = table[b * pages_each + slot / page_size] * page_size + slot % page_size, from = b * s.keys + slot;
        std::copy_n(&k[from * s.kv_heads * s.key_dim], s.kv_heads * s.key_dim, &keys[to * s.kv_heads * s.key_dim]);
        std::copy_n(&v[from * s.kv_heads * s.value_dim], s.kv_heads * s.value_dim, &values[to * s.kv_heads * s.value_dim]);
      }
    }
  }

  /// A reader over copies of the pool where the executor's bodies reach them.
  template <class Exec>
  lacuna::paged_kv<T> put(place<Exec>& at) const {
    return {{static_cast<T const*>(at.put(keys)), pages, page_size, shape.kv_heads, shape.key_dim},
            {static_cast<T const*>(at.put(values)), pages, page_size, shape.kv_heads, shape.value_dim},
            {static_cast<std::int32_t const*>(at.put(table)), shape.batch, pages_each}};
  }
};

}  // namespace test
