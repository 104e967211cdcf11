#pragma once
#include <lacuna/core/sparse_index.hpp>
#include <lacuna/exec/team.hpp>
#include <lacuna/kernels/boundary_flips.hpp>
#include <lacuna/kernels/key_axis.hpp>

namespace lacuna {

/// Joins the lists of every `members()` neighbouring tiles, 2 to 64, into one ascending list with membership: bit m for the reader of the
/// m-th tile. Makes lists of a few rows readable by a kernel that shares each fetch among 128. Exact: entries part wherever the set of
/// their readers changes, and only there. A span that reaches its tile's limit may end up to a block later: readers of a causal index
/// never look past their own position, and the joined row has a limit too.
///
/// Preconditions: `to` has members() times the tile rows of `from`, its batch, heads, granularity and causality, and joined_capacity();
/// `from` has no membership masks and no columns (they are no spans: who plans refuses them). Own spans of `from` start and end at
/// multiples of its granularity, except at the row's limit, its prefix or a shared span. [InfLLM-V2, section 3]
///
/// Both ends of every span flip their tile's bit at a boundary of the key axis; a running XOR over the boundaries is who reads what.
/// Block: one row of `to`.
struct union_lists {
  attention_shape shape;
  sequence_lengths lengths;
  sparse_index from, to;

  static constexpr int most_members = 64, most_cuts = 2048;
  static constexpr int team_size = 64, max_team_size = 256;
  static constexpr int window = 2080;  // boundaries in scratch at a time: 128K keys in blocks of 64; an odd share for 32 .. 256 threads

  /// True if lists of this layout can be joined that way.
  static constexpr bool takes(index_layout const& l, int members) {
    return members >= 2 && members <= most_members && l.granularity >= 8 && l.capacity.columns == 0 && !l.capacity.members &&
           cuts_of(l.capacity, members) <= most_cuts;
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
  LACUNA_HD std::size_t scratch_bytes() const {
    int const words = window * flip_words() + 2 * cuts_of(from.capacity, members());
    return 2 * max_team_size * sizeof(std::uint64_t) + words * sizeof(std::uint32_t);
  }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
    index_t const tile = block % to.tiles, b = block / to.tiles / to.heads;
    joined_row const row{sequence_at(lengths, shape, b), b, tile, static_cast<int>(block / to.tiles % to.heads)};
    if (tile == 0 && team.rank() == 0) to.rules[to.head_at(b, row.head)] = from.rules[from.head_at(b, row.head)];
    join(team, row);
  }

 private:
  struct joined_row {
    sequence s;
    index_t b, tile;
    int head;
  };

  /// What the windows before this one leave: who reads on, and how many entries there are.
  struct progress {
    std::uint64_t readers = 0;
    std::int32_t count = 0;
  };

  /// Cuts at most: both ends of every member's prefix and shared spans, of which the end of a prefix is the only odd one.
  LACUNA_HD static constexpr int cuts_of(index_capacity const& c, int members) { return members * (1 + 2 * c.shared_spans); }

  LACUNA_HD int flip_words() const { return members() > 32 ? 2 : 1; }

  // Scratch: shares of the members of the team (two buffers), then the flips of a window, then cuts.
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD static std::uint64_t* shares(Team& team) {
    return reinterpret_cast<std::uint64_t*>(team.scratch());
  }
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD static std::uint32_t* flip_memory(Team& team) {
    return reinterpret_cast<std::uint32_t*>(shares(team) + 2 * max_team_size);
  }
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD std::int32_t* cut_memory(Team& team) const {
    return reinterpret_cast<std::int32_t*>(flip_memory(team) + window * flip_words());
  }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void join(Team& team, joined_row const& row) const {
    key_axis const axis = cut_axis(team, row);
    std::int32_t const limit = round_up(static_cast<std::int32_t>(to.limit_of(row.s, row.tile)), from.granularity);
    std::int32_t const boundaries = limit > 0 ? axis.boundary(limit) + 1 : 0;
    progress done;
    for (std::int32_t first = 0; first < boundaries; first += window) {
      boundary_flips const flips{flip_memory(team), flip_words(), first, min(window, boundaries - first)};
      for (int i = team.rank(); i < flips.count * flips.words_each; i += team.size()) flips.words[i] = 0;
      team.sync();
      flip_ends(team, row, axis, flips);
      team.sync();
      done = write(team, row, axis, flips, done);
    }
    if (team.rank() == 0) to.row_count[to.row_at(row.b, row.head, row.tile)] = done.count | sparse_index::alone;
    team.sync();  // scratch is free again
  }

  /// Entry e of a member's row. Nothing of a row comes after its limit, so what reaches it may as well end with the block.
  LACUNA_HD span entry(index_row const& row, int e) const {
    span s = row.span_at(e);
    if (s.size() == 0) return {0, 0};
    if (s.end == row.limit) s.end = round_up(s.end, from.granularity);
    return s;
  }

  LACUNA_HD index_t tile_of(joined_row const& row, int member) const { return row.tile * members() + member; }
  LACUNA_HD bool exists(joined_row const& row, int member) const { return from.rows_of(row.s, tile_of(row, member)) > 0; }

  /// Finds the odd ends of prefixes and shared spans and sorts them by counting.
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD key_axis cut_axis(Team& team, joined_row const& row) const {
    index_t const head = from.head_at(row.b, row.head);
    bool const shared = from.capacity.shared_spans > 0;
    if (!shared && from.prefix[head] % from.granularity == 0) return key_axis{from.granularity};
    int const each = 1 + 2 * from.capacity.shared_spans, count = members() * each;
    std::int32_t const none = 0x7fffffff;
    std::int32_t *const sorted = cut_memory(team), *const found = sorted + count;
    for (int i = team.rank(); i < count; i += team.size()) {
      std::int32_t const end = end_of(row, i / each, i % each);
      found[i] = end % from.granularity ? end : none;
    }
    team.sync();
    int odd = 0;
    for (int k = 0; k < count; ++k) odd += found[k] != none;
    for (int i = team.rank(); i < count; i += team.size()) {
      int before = 0;
      for (int k = 0; k < count; ++k) before += found[k] < found[i] || (found[k] == found[i] && k < i);
      sorted[before] = found[i];
    }
    team.sync();
    return key_axis{from.granularity, sorted, odd};
  }

  /// End 0 of a member's row is the prefix's, the others are the shared spans' beginnings and ends; 0 where there is none.
  LACUNA_HD std::int32_t end_of(joined_row const& at, int member, int end) const {
    if (!exists(at, member)) return 0;
    index_row const row = from.row(at.s, at.b, at.head, tile_of(at, member));
    if (end == 0) return entry(row, 0).end;
    int const shared = (end - 1) / 2;
    if (shared >= row.shared_count) return 0;
    span const s = entry(row, 1 + row.own_count + shared);
    return end % 2 ? s.begin : s.end;
  }

  /// Flips both ends of every entry. The team splits into as many groups as there are tiles, if it has as many members.
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void flip_ends(Team& team, joined_row const& at, key_axis const& axis, boundary_flips const& flips) const {
    int const lanes = max(1, team.size() / members()), groups = team.size() / lanes, group = team.rank() / lanes;
    for (int m = group; group < groups && m < members(); m += groups) {
      if (!exists(at, m)) continue;
      index_row const row = from.row(at.s, at.b, at.head, tile_of(at, m));
      for (int e = team.rank() % lanes; e < row.span_count(); e += lanes) {
        span const s = entry(row, e);
        if (s.size() == 0) continue;
        std::int32_t const begin = axis.boundary(s.begin), end = axis.boundary(s.end);
        LACUNA_ASSERT(axis.position(begin) == s.begin && axis.position(end) == s.end);  // else an own span breaks the preconditions
        flips.flip(begin, m), flips.flip(end, m);
      }
    }
  }

  /// Turns the boundaries of a window into entries, each member of the team its share of them.
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD progress write(Team& team, joined_row const& row, key_axis const& axis, boundary_flips const& flips, progress done) const {
    int const each = ceil_div(flips.count, team.size()), begin = min(team.rank() * each, flips.count), end = min(begin + each, flips.count);
    std::uint64_t change = 0;
    for (int i = begin; i < end; ++i) change ^= flips.at(i);
    scanned const changes = scan(team, change, [](std::uint64_t a, std::uint64_t b) { return a ^ b; });
    std::uint64_t readers = done.readers ^ changes.upto ^ change, last = readers;
    std::int32_t entries = 0;
    for (int i = begin; i < end; ++i)
      if (std::uint64_t const x = flips.at(i)) last ^= x, entries += last != 0;
    scanned const counts = scan(team, entries, [](std::uint64_t a, std::uint64_t b) { return a + b; });
    index_t at = to.own_at(to.row_at(row.b, row.head, row.tile)) + done.count + static_cast<index_t>(counts.upto) - entries;
    for (int i = begin; i < end; ++i) {
      std::uint64_t const x = flips.at(i);
      if (x == 0) continue;
      std::int32_t const position = axis.position(flips.first + i);
      if (readers) to.own[at - 1].end = position;
      readers ^= x;
      if (readers) to.own[at].begin = position, to.members[at++] = readers;
    }
    team.sync();  // everyone has read
    return {done.readers ^ changes.all, done.count + static_cast<std::int32_t>(counts.all)};
  }

  struct scanned {
    std::uint64_t upto, all;  // of the members of the team up to this one, and of all
  };

  LACUNA_ANY_TEAM
  template <class Team, class Add>
  LACUNA_HD static scanned scan(Team& team, std::uint64_t value, Add const& add) {
    std::uint64_t *now = shares(team), *next = now + max_team_size;
    now[team.rank()] = value;
    team.sync();
    for (int step = 1; step < team.size(); step *= 2) {
      if (team.rank() >= step) value = add(now[team.rank() - step], value);
      next[team.rank()] = value;
      team.sync();
      std::uint64_t* const before = now;
      now = next, next = before;
    }
    std::uint64_t const all = now[team.size() - 1];
    team.sync();  // everyone has read
    return {value, all};
  }
};

static_assert(Body<union_lists>);

}  // namespace lacuna
