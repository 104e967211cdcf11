#pragma once
#include <lacuna/core/shape.hpp>
#include <lacuna/core/tensor_view.hpp>

namespace lacuna {

/// Reads keys and values that lie token after token. Slot = position. Views are [batch, token, kv head, dim]; packed batches have batch
/// stride 0 and sequences start at their offset.
template <class T>
struct contiguous_kv {
  using element = T;
  tensor_view<T const, 4> keys;
  tensor_view<T const, 4> values;

  LACUNA_HD T const* key(sequence const& s, index_t b, int head, index_t slot) const { return keys.row(b, s.first_key + slot, head); }
  LACUNA_HD T const* value(sequence const& s, index_t b, int head, index_t slot) const { return values.row(b, s.first_key + slot, head); }

  /// Slots from `slot` on, itself included, whose rows are key_stride() and value_stride() elements apart.
  LACUNA_HD index_t run(index_t slot) const { return max_tokens - slot; }
  LACUNA_HD index_t key_stride() const { return keys.stride[1]; }
  LACUNA_HD index_t value_stride() const { return values.stride[1]; }
};

}  // namespace lacuna
