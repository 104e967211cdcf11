#pragma once
#include <lacuna/core/sparse_index.hpp>
#include <lacuna/exec/team.hpp>

namespace lacuna {

/// Joins the lists of every `members()` neighbouring tiles, 2 to 64, into one ascending list with membership: bit m for the reader of the
/// m-th tile. Makes lists of a few rows readable by a kernel that shares each fetch among 128. Exact: entries part wherever the set of
/// their readers changes, and only there. A span that reaches its tile's limit may end up to a block later: readers of a causal index
/// never look past their own position, and the joined row has a limit too.
///
/// Preconditions: `to` has members() times the tile rows of `from`, its batch, heads, granularity and causality, and joined_capacity();
/// `from` has no membership masks and no columns (they are no spans: who plans refuses them). [InfLLM-V2, section 3]
///
/// The lists are walked side by side, a lane a list, from one place where any of them begins or ends to the next: the work grows with the
/// lists, whatever the granularity and the number of keys. Block: one row of `to`.
struct union_lists {
  attention_shape shape;
  sequence_lengths lengths;
  sparse_index from, to;

  static constexpr int most_members = 64;
  static constexpr int team_size = 32, max_team_size = 32;  // one warp on a GPU

  /// True if lists of this layout can be joined that way.
  static constexpr bool takes(index_layout const& l, int members) {
    return members >= 2 && members <= most_members && l.capacity.columns == 0 && !l.capacity.members;
  }

  /// Room for the joined lists of `members` tiles over at most `keys` keys. Every entry starts at an end of some span, and every entry
  /// covers a block, or a piece of one, that some tile reads.
  static constexpr index_capacity joined_capacity(index_layout const& l, int members, index_t keys) {
    index_capacity const& c = l.capacity;
    index_t const ends = 2 * index_t{members} * (1 + c.spans + c.shared_spans) - 1;
    index_t const blocks = ceil_div<index_t>(keys, l.granularity), pieces = 1 + 2 * index_t{members} * c.shared_spans;
    index_t const read = c.blocks ? min<index_t>(index_t{members} * c.blocks, blocks) : blocks;
    return {.spans = static_cast<int>(min(ends, read + pieces)), .members = true};
  }

  LACUNA_HD int members() const { return to.tile_rows / from.tile_rows; }
  LACUNA_HD index_t blocks() const { return index_t{to.batch} * to.heads * to.tiles; }
  LACUNA_HD std::size_t scratch_bytes() const { return max_team_size * sizeof(vote) + members() * sizeof(walk); }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
    index_t const tile = block % to.tiles, b = block / to.tiles / to.heads;
    int const head = static_cast<int>(block / to.tiles % to.heads);
    if (tile == 0 && team.rank() == 0) to.rules[to.head_at(b, head)] = from.rules[from.head_at(b, head)];
    join(team, sequence_at(lengths, shape, b), b, head, tile);
  }

 private:
  static constexpr std::int32_t none = 0x7fffffff;

  /// A list on its way.
  struct walk {
    index_row row;
    int entry;          // the one it is at
    std::int32_t next;  // where that begins, or, when it is being read, ends; none past the last
    bool reading;

    /// Goes on to the next entry that has keys; reads it already if it begins at p.
    LACUNA_HD void advance(std::int32_t p, int granularity) {
      span now{0, 0};
      while (now.size() == 0 && ++entry < row.span_count()) now = row.span_at(entry);
      reading = now.size() > 0 && now.begin == p;
      next = now.size() == 0 ? none : reading ? end_of(now, granularity) : now.begin;
    }

    /// Passes p, where it begins or ends to read.
    LACUNA_HD void pass(std::int32_t p, int granularity) {
      if (reading) return advance(p, granularity);
      reading = true, next = end_of(row.span_at(entry), granularity);
    }

   private:
    /// Nothing of a row comes after its limit, so what reaches it may as well end with the block.
    LACUNA_HD std::int32_t end_of(span s, int granularity) const { return s.end == row.limit ? round_up(s.end, granularity) : s.end; }
  };

  /// What the lists of one member of the team say.
  struct vote {
    std::uint64_t readers;
    std::int32_t next;
  };

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD static vote* votes(Team& team) {
    return reinterpret_cast<vote*>(team.scratch());
  }
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD static walk* walks(Team& team) {
    return reinterpret_cast<walk*>(votes(team) + max_team_size);
  }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void join(Team& team, sequence const& s, index_t b, int head, index_t tile) const {
    for (int m = team.rank(); m < members(); m += team.size()) walks(team)[m] = start(s, b, head, tile * members() + m);
    index_t const row = to.row_at(b, head, tile);
    span* own = to.own + to.own_at(row);
    std::uint64_t* masks = to.members + to.own_at(row);
    std::int32_t count = 0, begin = 0;
    std::uint64_t readers = 0;
    for (vote now = agree(team, look(team)); now.next != none;) {
      std::int32_t const p = now.next;
      now = agree(team, pass(team, p));
      if (now.readers == readers) continue;
      if (readers && team.rank() == 0) own[count] = {begin, p}, masks[count] = readers;
      count += readers != 0;
      begin = p, readers = now.readers;
    }
    if (team.rank() == 0) to.row_count[row] = count | sparse_index::alone;
    team.sync();  // scratch is free again
  }

  LACUNA_HD walk start(sequence const& s, index_t b, int head, index_t tile) const {
    walk w{{}, 0, none, false};
    if (from.rows_of(s, tile) == 0) return w;
    w.row = from.row(s, b, head, tile), w.entry = -1;
    w.advance(-1, from.granularity);
    return w;
  }

  /// This member's lists.
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD vote look(Team& team) const {
    vote mine{0, none};
    for (int m = team.rank(); m < members(); m += team.size()) {
      walk const& w = walks(team)[m];
      mine.readers |= std::uint64_t{w.reading} << m, mine.next = min(mine.next, w.next);
    }
    return mine;
  }

  /// The same after they pass p.
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD vote pass(Team& team, std::int32_t p) const {
    for (int m = team.rank(); m < members(); m += team.size())
      if (walk& w = walks(team)[m]; w.next == p) w.pass(p, from.granularity);
    return look(team);
  }

  /// The votes of all as one.
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD static vote agree(Team& team, vote mine) {
#ifdef __CUDA_ARCH__
    static_cast<void>(team);
    std::uint32_t const low = __reduce_or_sync(0xffffffffu, static_cast<std::uint32_t>(mine.readers)),
                        high = __reduce_or_sync(0xffffffffu, static_cast<std::uint32_t>(mine.readers >> 32));
    return {std::uint64_t{high} << 32 | low, __reduce_min_sync(0xffffffffu, mine.next)};
#else
    votes(team)[team.rank()] = mine;
    team.sync();
    for (int r = 0; r < team.size(); ++r) mine.readers |= votes(team)[r].readers, mine.next = min(mine.next, votes(team)[r].next);
    team.sync();  // everyone has read
    return mine;
#endif
  }
};

static_assert(Body<union_lists>);

}  // namespace lacuna
