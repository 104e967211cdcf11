#pragma once
#include <lacuna/kernels/pair_lists.hpp>
#include <lacuna/kernels/union_lists.hpp>

#include <string>

namespace lacuna::sm90 {

/// How lists that serve few rows are read by a body that shares each fetch among 128: the lists of `members` neighbouring tiles are joined
/// into one, a membership bit each. Fetches grow with the union, not with the number of lists; where neighbours read alike, as tokens that
/// choose blocks do, the union is little longer than one of them. [InfLLM-V2, section 3]
struct list_joining {
  enum method { as_they_are, by_union, in_pairs };
  method how = as_they_are;
  int members = 1;

  static constexpr int rows = 128;

  /// Rows of a tile are its tokens times the heads that share a list and a KV head. Lists that no group shares and that union_lists does
  /// not take (granularity under 8) are joined in pairs if they have 64 rows.
  static constexpr list_joining of(index_layout const& l, attention_shape const& s) {
    bool const shared = l.heads <= s.kv_heads && s.group() > 1;
    int const tile = l.tile_rows * (shared ? s.group() : 1);
    for (int members = min(rows / max(tile, 1), union_lists::most_members); members >= 2; members /= 2)
      if (union_lists::takes(l, members)) return {by_union, members};
    if (!shared && l.tile_rows == 64 && !l.capacity.members && l.capacity.columns == 0) return {in_pairs, 2};
    return {};
  }

  constexpr index_layout layout(index_layout l, attention_shape const& s) const {
    if (how == by_union) l.capacity = union_lists::joined_capacity(l, members, s.keys);
    if (how == in_pairs) l.capacity = {.spans = pair_lists::joined_capacity(l.capacity), .members = true};
    l.tile_rows *= members;
    return l;
  }

  /// What a plan says of it.
  std::string reason() const {
    return how == as_they_are ? std::string{} : "; the lists of " + std::to_string(members) + " neighbouring tiles are read joined";
  }

  std::size_t bytes(index_layout const& l, attention_shape const& s) const { return how == as_they_are ? 0 : index_bytes(layout(l, s)); }

  /// Joins on the executor's stream; `joined` has layout(). Nothing to do where lists are read as they are.
  template <class Executor>
  status run(Executor const& exec, attention_shape const& s, sequence_lengths const& lengths, sparse_index const& lists,
             sparse_index const& joined) const {
    if (how == by_union) {
      union_lists const join{s, lengths, lists, joined};
      return exec.launch({join.blocks(), union_lists::team_size}, join);
    }
    if (how == in_pairs) {
      pair_lists const join{s, lengths, lists, joined};
      return exec.launch({join.blocks(), pair_lists::rows_per_block}, join);
    }
    return {};
  }
};

}  // namespace lacuna::sm90
