#pragma once
#include <lacuna/core/tensor_view.hpp>
#include <lacuna/kernels/slash_lists.hpp>

namespace lacuna {

/// All lists of an index, in the form of a head set.
struct every_list {
  struct identity {
    LACUNA_HD int operator[](int i) const { return i; }
  };
  int count = 0;
  identity list;
};

/// Columns and distances that a caller chose for each list: in any order, some maybe twice. Entries that no query can use are ignored, so
/// -1 pads verticals and 0x7fffffff pads distances. Taken as they are: nothing is forced.
struct slash_sets {
  tensor_view<std::int32_t const, 3> verticals;  // [batch, lists, entries] key positions
  tensor_view<std::int32_t const, 3> distances;  // [batch, lists, entries] query position - key position; below 0 if not causal
};

/// Entries that somebody else has chosen: those with a flag.
struct flagged_entries {
  std::uint8_t const* flags;
  index_t count;

  LACUNA_HD index_t size() const { return count; }
  LACUNA_HD float score(index_t) const { return 0; }
  LACUNA_HD standing standing_of(index_t i) const { return flags[i] ? standing::forced : standing::excluded; }
};

/// The sets of a caller, sorted and freed of repetitions by marking what they name.
struct given_slashes {
  index_t keys = 0;                        // capacity
  index_t reach = 0;                       // most distance below 0: queries - 1 of the capacity
  std::uint8_t* column_flags = nullptr;    // [batch, lists, keys]
  std::uint8_t* distance_flags = nullptr;  // [batch, lists, reach + keys], entry distance + reach

  LACUNA_HD std::uint8_t* columns_of(index_t list) const { return column_flags + list * keys; }
  LACUNA_HD std::uint8_t* distances_of(index_t list) const { return distance_flags + list * (reach + keys); }

  LACUNA_HD top_k<flagged_entries> columns(index_t list, int, sequence const&) const { return {{columns_of(list), keys}, 0}; }
  LACUNA_HD top_k<flagged_entries> distances(index_t list, int, sequence const&) const { return {{distances_of(list), reach + keys}, 0}; }
  LACUNA_HD index_t lowest(int, sequence const&) const { return -reach; }
};

/// Marks what the sets name and the sequence has. Members own ranges of the flags. Block = list.
struct mark_slash_sets {
  attention_shape shape;
  sequence_lengths lengths;
  int lists;  // per sequence
  bool causal;
  slash_sets sets;
  given_slashes given;

  LACUNA_HD index_t blocks() const { return shape.batch * lists; }
  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
    index_t const b = block / lists, list = block % lists;
    sequence const s = sequence_at(lengths, shape, b);
    mark(team, sets.verticals, b, list, {0, s.keys}, given.columns_of(block), 0, given.keys);
    bounds const usable{causal ? 0 : 1 - s.queries, s.keys};
    mark(team, sets.distances, b, list, usable, given.distances_of(block), given.reach, given.reach + given.keys);
  }

 private:
  struct bounds {
    index_t begin, end;
  };

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD static void mark(Team& team, tensor_view<std::int32_t const, 3> const& set, index_t b, index_t list, bounds usable,
                             std::uint8_t* flags, index_t zero_at, index_t count) {
    index_t const each = ceil_div<index_t>(count, team.size());
    index_t const begin = min(team.rank() * each, count), end = min(begin + each, count);
    for (index_t i = begin; i < end; ++i) flags[i] = 0;
    for (index_t e = 0; e < set.extent[2]; ++e) {
      index_t const entry = set(b, list, e), at = entry + zero_at;
      if (entry >= usable.begin && entry < usable.end && at >= begin && at < end) flags[at] = 1;
    }
  }
};

}  // namespace lacuna
