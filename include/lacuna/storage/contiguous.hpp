#pragma once
#include <lacuna/core/check_view.hpp>
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

  LACUNA_HD T const* key(sequence const& s, index_t b, int head, index_t slot) const { return at(keys, s, b, head, slot); }
  LACUNA_HD T const* value(sequence const& s, index_t b, int head, index_t slot) const { return at(values, s, b, head, slot); }

  /// Slots from `slot` on, itself included, whose rows are key_stride() and value_stride() elements apart.
  LACUNA_HD index_t run(index_t slot) const { return max_tokens - slot; }
  LACUNA_HD index_t key_stride() const { return keys.stride[1]; }
  LACUNA_HD index_t value_stride() const { return values.stride[1]; }

  /// Key tokens of one sequence, unless sequences are packed.
  index_t tokens() const { return keys.extent[1]; }

  /// Refuses views that do not fit the capacities, and an output that overlaps them.
  template <class Out>
  status check(attention_shape const& s, sequence_lengths const& lengths, Out const& out) const {
    bool const packed = lengths.key_offsets;
    index_t const batch = packed ? 1 : s.batch, most = packed ? -1 : s.keys;
    if (status r = detail::check_rows("k", keys, batch, most, s.kv_heads, s.key_dim); !r) return r;
    if (status r = detail::check_rows("v", values, batch, most, s.kv_heads, s.value_dim); !r) return r;
    if (values.extent[1] != keys.extent[1]) return refuse("v has ", values.extent[1], " tokens; k has ", keys.extent[1]);
    auto const written = detail::addresses(out);
    if (written.overlaps(detail::addresses(keys))) return refuse("out overlaps k; expected memory of its own");
    if (written.overlaps(detail::addresses(values))) return refuse("out overlaps v; expected memory of its own");
    return {};
  }

 private:
  LACUNA_HD static T const* at(tensor_view<T const, 4> const& v, sequence const& s, index_t b, int head, index_t slot) {
    return v.row(v.extent[0] == 1 ? 0 : b, s.first_key + slot, head);
  }
};

}  // namespace lacuna
