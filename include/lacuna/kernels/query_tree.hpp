#pragma once
#include <lacuna/core/shape.hpp>
#include <lacuna/core/tensor_view.hpp>

namespace lacuna {

/// For query tokens that form a tree (speculative decoding): which of the newest 64 keys of its sequence each of them sees. Bit j of a row
/// stands for the key at position keys - 64 + j, so bit 63 for the last token. A tree only narrows what index, causality and rule let
/// through: tokens stand behind their ancestors, and keys before the newest 64 are none of its business.
struct query_tree {
  tensor_view<std::uint64_t const, 2> rows;  // [batch, queries]; of packed batches [1, tokens]; null: no tree

  LACUNA_HD constexpr explicit operator bool() const { return rows.data != nullptr; }
  LACUNA_HD constexpr std::uint64_t row(sequence const& s, index_t b, index_t query) const { return rows(b, s.first_query + query); }

  LACUNA_HD static constexpr bool sees(std::uint64_t row, index_t keys, index_t key) {
    index_t const bit = key - (keys - 64);
    return bit < 0 || (row >> bit & 1);
  }
  LACUNA_HD constexpr bool visible(sequence const& s, index_t b, index_t query, index_t key) const {
    return !rows.data || sees(row(s, b, query), s.keys, key);
  }
};

}  // namespace lacuna
