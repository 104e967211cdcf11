#pragma once
#include <lacuna/core/check_view.hpp>
#include <lacuna/core/shape.hpp>
#include <lacuna/core/tensor_view.hpp>
#include <lacuna/kernels/attend_args.hpp>

namespace lacuna {

/// Reads keys and values that lie in pages of a pool, found through a table: slot i of sequence b is token i % page_size of page
/// table(b, i / page_size). Slot = position. The number of tokens in a page is a power of two, the same for keys and values; strides are
/// any. Sequences may share pages. Entries past a sequence's last page are not read.
template <class T>
struct paged_kv {
  using element = T;
  tensor_view<T const, 4> keys;              // [page, token in page, kv head, key_dim]
  tensor_view<T const, 4> values;            // [page, token in page, kv head, value_dim]
  tensor_view<std::int32_t const, 2> table;  // [batch, pages of a sequence] numbers of pages in the pool

  paged_kv() = default;
  LACUNA_HD constexpr paged_kv(tensor_view<T const, 4> key_pages, tensor_view<T const, 4> value_pages,
                               tensor_view<std::int32_t const, 2> block_table)
      : keys{key_pages}, values{value_pages}, table{block_table} {
    while (page_bits_ < 30 && (index_t{2} << page_bits_) <= keys.extent[1]) ++page_bits_;
  }

  LACUNA_HD index_t page_size() const { return index_t{1} << page_bits_; }

  LACUNA_HD T const* key(sequence const&, index_t b, int head, index_t slot) const { return at(keys, b, head, slot); }
  LACUNA_HD T const* value(sequence const&, index_t b, int head, index_t slot) const { return at(values, b, head, slot); }

  /// Slots from `slot` to the end of its page, whose rows are key_stride() and value_stride() elements apart.
  LACUNA_HD index_t run(index_t slot) const { return page_size() - (slot & (page_size() - 1)); }
  LACUNA_HD index_t key_stride() const { return keys.stride[1]; }
  LACUNA_HD index_t value_stride() const { return values.stride[1]; }

  /// Refuses pools and tables that do not fit the capacities, and an output that overlaps them.
  template <class Out>
  status check(attention_shape const& s, sequence_lengths const& lengths, Out const& out) const {
    index_t const size = keys.extent[1], pages = ceil_div(s.keys, page_size());
    if (lengths.key_offsets) return refuse("key_offsets are for packed keys; a paged sequence says its length in key_lengths");
    if (size != page_size()) return refuse("pages of k hold ", size, " tokens; expected a power of two up to 2^30, given to the constructor");
    if (status r = detail::check_rows("k", keys, keys.extent[0], size, s.kv_heads, s.key_dim); !r) return r;
    if (status r = detail::check_rows("v", values, keys.extent[0], size, s.kv_heads, s.value_dim); !r) return r;
    if (values.extent[1] != size) return refuse("pages of v hold ", values.extent[1], " tokens; those of k hold ", size);
    if (table.extent[0] != s.batch || table.extent[1] < pages)
      return refuse("table is ", detail::extents_of(table), "; expected [", s.batch, ", at least ", pages, "]");
    if (table.size() > 0 && !table) return refuse("table is null; expected ", table.size(), " page numbers");
    auto const written = detail::addresses(out);
    if (written.overlaps(detail::addresses(keys))) return refuse("out overlaps k; expected memory of its own");
    if (written.overlaps(detail::addresses(values))) return refuse("out overlaps v; expected memory of its own");
    return {};
  }

  /// Refuses page numbers outside the pool, where lengths and table are in host memory. A table in device memory cannot be looked at
  /// without waiting: there the caller answers for it.
  status check_contents(attention_shape const& s, sequence_lengths const& lengths) const {
    for (index_t b = 0; b < s.batch; ++b) {
      index_t const pages = ceil_div(sequence_at(lengths, s, b).keys, page_size());
      for (index_t i = 0; i < pages; ++i)
        if (table(b, i) < 0 || table(b, i) >= keys.extent[0])
          return refuse("table has page ", table(b, i), " at [", b, ", ", i, "]; the pool has ", keys.extent[0], " pages");
    }
    return {};
  }

 private:
  LACUNA_HD T const* at(tensor_view<T const, 4> const& pool, index_t b, int head, index_t slot) const {
    return pool.row(table(b, slot >> page_bits_), slot & (page_size() - 1), head);
  }

  int page_bits_ = 0;
};

static_assert(KvReader<paged_kv<float>>);

}  // namespace lacuna
