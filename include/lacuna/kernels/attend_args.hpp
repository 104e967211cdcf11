#pragma once
#include <lacuna/core/element.hpp>
#include <lacuna/core/logits.hpp>
#include <lacuna/core/sparse_index.hpp>
#include <lacuna/core/tensor_view.hpp>
#include <lacuna/kernels/query_tree.hpp>
#include <lacuna/rope/attend_rope.hpp>

namespace lacuna {

/// Reads rows of keys and values by (sequence, batch, KV head, slot), with a hint how far rows are evenly spaced.
template <class R>
concept KvReader = std::is_trivially_copyable_v<R> && requires(R const r, sequence const& s, index_t at, int head) {
  { r.key(s, at, head, at) } -> std::same_as<typename R::element const*>;
  { r.value(s, at, head, at) } -> std::same_as<typename R::element const*>;
  { r.run(at) } -> std::same_as<index_t>;
  { r.key_stride() } -> std::same_as<index_t>;
  { r.value_stride() } -> std::same_as<index_t>;
};

/// The mask inside kept spans, element by element, beside causality. by_rule reads it from the index and serves all patterns of the
/// library; a pattern with a mask of another form brings its own type.
struct by_rule {
  template <class Position, class Key>
  LACUNA_HD constexpr bool visible(head_rule const& rule, int, Position position, Key key) const {
    return rule.visible(position, key);
  }
  /// True only if all positions in [first, last] see all keys in [begin, end).
  LACUNA_HD constexpr bool sees_all(head_rule const& rule, int, index_t first, index_t last, index_t begin, index_t end) const {
    return rule.sees_all(first, last, begin, end);
  }
};

template <class M>
concept ElementMask = std::is_trivially_copyable_v<M> && requires(M const m, head_rule const& rule, int head, index_t at) {
  { m.visible(rule, head, at, at) } -> std::same_as<bool>;
  { m.sees_all(rule, head, at, at, at, at) } -> std::same_as<bool>;
};

/// One attention call: everything that any body needs. Tensors are [batch, token, head, dim].
template <AttentionElement T, class Kv, class Mask = by_rule, AttendRope Rope = given_rope>
struct attend_args {
  using element = T;
  attention_shape shape;
  sequence_lengths lengths;
  sparse_index index;
  tensor_view<T const, 4> q;
  Kv kv;
  tensor_view<T, 4> out;
  tensor_view<float, 3> lse;  // [batch, token, query head], natural logarithm; data may be null
  logit_transform logits;
  float const* sink_logits = nullptr;  // [query heads] a further term exp(sink) of each row's sum, in the LSE too; or null
  Mask mask;
  Rope rope = {};
  query_tree tree = {};

  static constexpr bool turns_on_read = !std::same_as<Rope, given_rope>;

  LACUNA_HD int list_of(int head) const { return list_head(head, shape.query_heads, index.heads); }
};

/// Where parts of rows go when a row's keys are split over blocks.
struct attend_parts {
  int splits = 1;          // parts of a row at most
  index_t split_keys = 0;  // keys a part aims at; the number of parts depends on the row's own list only
  float* out = nullptr;    // [row, split, value_dim] normalised
  float* lse = nullptr;    // [row, split]

  /// Keys [begin, end) of part `split` in a list of `keys` keys.
  LACUNA_HD span part(index_t keys, int split) const {
    if (splits == 1) return {0, static_cast<std::int32_t>(keys)};
    index_t const parts = clamp<index_t>(ceil_div(keys, split_keys), 1, splits);
    index_t const each = ceil_div(keys, parts);
    index_t const begin = min(split * each, keys);
    return {static_cast<std::int32_t>(begin), static_cast<std::int32_t>(min(begin + each, keys))};
  }
};

}  // namespace lacuna
