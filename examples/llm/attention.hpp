#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <lacuna/core/tensor_view.hpp>
#include <lacuna/core/visited.hpp>
#include <lacuna/exec/host_executor.hpp>
#include <lacuna/exec/workspace.hpp>
#include <lacuna/rope/rope_table.hpp>

#include "pattern_spec.hpp"

namespace llm {

/// Queries, keys and values of one layer, batch 1; queries are the last positions of the keys.
template <class T>
struct basic_attention_tensors {
  lacuna::tensor_view<T const, 4> q;  // [1, query, query head, dim]
  lacuna::tensor_view<T const, 4> k;  // [1, key, KV head, dim]
  lacuna::tensor_view<T const, 4> v;  // [1, key, KV head, dim]
  lacuna::tensor_view<T, 4> out;      // [1, query, query head, dim], written

  std::int64_t queries() const { return q.extent[1]; }
  std::int64_t keys() const { return k.extent[1]; }
  int query_heads() const { return static_cast<int>(q.extent[2]); }
  int kv_heads() const { return static_cast<int>(k.extent[2]); }
  int head_size() const { return static_cast<int>(q.extent[3]); }
};

using attention_tensors = basic_attention_tensors<float>;

/// How much of each square of `cell` queries by `cell` keys a head visits, 0 to 1, row by row.
struct visited_cells {
  std::int64_t rows;
  std::int64_t columns;
  std::vector<float> share;  // [rows, columns] of the cell's causal pairs
};

/// What patterns that set positions must know of a layer and its model.
struct layer_place {
  int layer = 0;
  lacuna::rope_table table = {};  // where Exec's bodies can reach it
  std::int32_t trained_tokens = 0;
  float logit_factor = 1;
};

/// Throws llm::error naming the sizes that attention is built for if `head_size` is not among them.
void check_head_size(int head_size);

/// A model's only door to attention, all of it lacuna's: causal, scaled by 1 / sqrt(head size). T is the type of queries, keys, values and
/// output, which lie where Exec's bodies can reach them. Member functions are in attention_calls.hpp.
template <class Exec, class T>
class basic_attention {
 public:
  using tensors_type = basic_attention_tensors<T>;

  explicit basic_attention(Exec exec) : exec_(exec) {}

  /// Each query reads the keys that the pattern keeps.
  void prefill(pattern_spec const& pattern, tensors_type const& tensors, layer_place const& place = {});

  /// Pairs that the pattern keeps on these tensors.
  lacuna::pair_count count(pattern_spec const& pattern, tensors_type const& tensors, layer_place const& place = {});
  visited_cells draw(pattern_spec const& pattern, tensors_type const& tensors, int head, std::int64_t cell);

  /// Few queries, split over the threads: each reads all keys up to its own position, or what a pattern that sets positions keeps.
  void decode(tensors_type const& tensors, pattern_spec const& pattern = {.kind = pattern_kind::dense}, layer_place const& place = {});

 private:
  lacuna::workspace<Exec> const& workspace_of(std::size_t bytes);
  /// Builds the pattern's index alone and hands a copy in host memory to `read`.
  template <class Read>
  void read_index(pattern_spec const& pattern, tensors_type const& tensors, layer_place const& place, Read const& read);

  Exec exec_;
  std::optional<lacuna::workspace<Exec>> workspace_;  // grows, and is kept between layers
};

using attention = basic_attention<lacuna::host_executor, float>;
extern template class basic_attention<lacuna::host_executor, float>;

}  // namespace llm
