#pragma once
#include <lacuna/kernels/union_lists.hpp>

#include <string>

namespace lacuna::sm90 {

/// How lists that serve few rows are read by a body that shares each fetch among 128: the lists of `members` neighbouring tiles are joined
/// into one, a membership bit each. Fetches grow with the union, not with the number of lists; where neighbours read alike, as tokens that
/// choose blocks do, the union is little longer than one of them. [InfLLM-V2, section 3]
struct list_joining {
  int members = 1;  // 1: lists are read as they are

  static constexpr int rows = 128;

  /// As many tiles as fit into the body's rows. Rows of a tile are its tokens times the heads that share a list and a KV head.
  static constexpr list_joining of(index_layout const& l, attention_shape const& s) {
    int const tile = l.tile_rows * (l.heads <= s.kv_heads ? s.group() : 1);
    int const members = min(rows / max(tile, 1), union_lists::most_members);
    return union_lists::takes(l, members) ? list_joining{members} : list_joining{};
  }

  constexpr bool joins() const { return members > 1; }

  constexpr index_layout layout(index_layout l, attention_shape const& s) const {
    if (joins()) l.capacity = union_lists::joined_capacity(l, members, s.keys);
    l.tile_rows *= members;
    return l;
  }

  /// What a plan says of it.
  std::string reason() const {
    return joins() ? "; the lists of " + std::to_string(members) + " neighbouring tiles are read joined" : std::string{};
  }

  std::size_t bytes(index_layout const& l, attention_shape const& s) const { return joins() ? index_bytes(layout(l, s)) : 0; }

  /// Joins on the executor's stream; `joined` has layout(). Nothing to do where lists are read as they are.
  template <class Executor>
  status run(Executor const& exec, attention_shape const& s, sequence_lengths const& lengths, sparse_index const& lists,
             sparse_index const& joined) const {
    if (!joins()) return {};
    union_lists const join{s, lengths, lists, joined};
    return exec.launch({join.blocks(), union_lists::team_size}, join);
  }
};

}  // namespace lacuna::sm90
