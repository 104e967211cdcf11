#pragma once
#include <lacuna/core/sparse_index.hpp>
#include <lacuna/exec/team.hpp>

namespace lacuna {

/// The key axis cut at every multiple of the granularity and, in between, at the odd ends of prefixes and shared spans. Boundaries are
/// numbered from 0 on; an axis without cuts has boundary p / granularity at position p.
struct key_axis {
  int granularity;
  std::int32_t const* cuts = nullptr;  // ascending; equal ones are allowed, the first of them counts
  int count = 0;

  /// Number of the boundary at position p, a multiple of the granularity or a cut.
  LACUNA_HD std::int32_t boundary(std::int32_t p) const {
    return ceil_div(p, granularity) + first(count, [&](int c) { return cuts[c] >= p; });
  }

  /// Position of boundary i.
  LACUNA_HD std::int32_t position(std::int32_t i) const {
    int const c = first(count, [&](int k) { return number_of(k) >= i; });
    return c < count && number_of(c) == i ? cuts[c] : (i - c) * granularity;
  }

 private:
  LACUNA_HD std::int32_t number_of(int cut) const { return ceil_div(cuts[cut], granularity) + cut; }

  /// First of [0, n) for which `late` holds; n if none. `late` is false, then true.
  template <class Late>
  LACUNA_HD static int first(int n, Late const& late) {
    int low = 0;
    while (low < n) {
      int const middle = (low + n) / 2;
      if (late(middle))
        n = middle;
      else
        low = middle + 1;
    }
    return low;
  }
};

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
    return max_team_size * sizeof(std::uint64_t) + (window * flip_words() + 2 * cuts_of(from.capacity, members())) * sizeof(std::uint32_t);
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

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD static std::uint64_t* shares(Team& team) {
    return reinterpret_cast<std::uint64_t*>(team.scratch());
  }
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD static std::uint32_t* flips(Team& team) {
    return reinterpret_cast<std::uint32_t*>(shares(team) + max_team_size);
  }
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD std::int32_t* cuts(Team& team) const {
    return reinterpret_cast<std::int32_t*>(flips(team) + window * flip_words());
  }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void join(Team& team, joined_row const& row) const {
    key_axis const axis = cut_axis(team, row);
    std::int32_t const limit = round_up(static_cast<std::int32_t>(to.limit_of(row.s, row.tile)), from.granularity);
    std::int32_t const boundaries = limit > 0 ? axis.boundary(limit) + 1 : 0;
    progress done;
    for (std::int32_t first = 0; first < boundaries; first += window) {
      int const count = min(window, boundaries - first);
      for (int i = team.rank(); i < window * flip_words(); i += team.size()) flips(team)[i] = 0;
      team.sync();
      for (int m = 0; m < members(); ++m) flip_ends(team, row, m, axis, first, count);
      team.sync();
      done = write(team, row, axis, first, count, done);
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
    if (!shared && from.prefix[head] % from.granularity == 0) return {from.granularity};
    int const each = 1 + 2 * from.capacity.shared_spans, count = members() * each;
    std::int32_t const none = 0x7fffffff;
    std::int32_t *const sorted = cuts(team), *const found = sorted + count;
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
    return {from.granularity, sorted, odd};
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

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void flip_ends(Team& team, joined_row const& at, int member, key_axis const& axis, std::int32_t first, int count) const {
    if (!exists(at, member)) return;
    index_row const row = from.row(at.s, at.b, at.head, tile_of(at, member));
    for (int e = team.rank(); e < row.span_count(); e += team.size()) {
      span const s = entry(row, e);
      if (s.size() == 0) continue;
      flip(team, member, axis, s.begin, first, count);
      flip(team, member, axis, s.end, first, count);
    }
  }

  /// Flips a member's bit at position p, if the window has it.
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void flip(Team& team, int member, key_axis const& axis, std::int32_t p, std::int32_t first, int count) const {
    std::int32_t const i = axis.boundary(p) - first;
    LACUNA_ASSERT(axis.position(i + first) == p);  // else an own span ends where the preconditions do not let it
    if (i < 0 || i >= count) return;
    std::uint32_t* const word = flips(team) + i * flip_words() + member / 32;
    std::uint32_t const bit = 1u << (member % 32);
#ifdef __CUDA_ARCH__
    atomicXor(word, bit);
#else
    __atomic_fetch_xor(word, bit, __ATOMIC_RELAXED);
#endif
  }

  LACUNA_HD std::uint64_t flipped(std::uint32_t const* flips, int i) const {
    if (flip_words() == 1) return flips[i];
    return flips[2 * i] | std::uint64_t{flips[2 * i + 1]} << 32;
  }

  /// Turns the boundaries of a window into entries: each member of the team its share, in order.
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD progress write(Team& team, joined_row const& row, key_axis const& axis, std::int32_t first, int count, progress done) const {
    std::uint32_t const* const all = flips(team);
    int const each = ceil_div(count, team.size()), begin = min(team.rank() * each, count), end = min(begin + each, count);
    std::uint64_t change = 0;
    for (int i = begin; i < end; ++i) change ^= flipped(all, i);
    progress mine = done;
    done.readers = scan(team, change, mine.readers, [](std::uint64_t a, std::uint64_t x) { return a ^ x; });
    std::uint64_t readers = mine.readers, entries = 0, before = static_cast<std::uint64_t>(mine.count);
    for (int i = begin; i < end; ++i)
      if (std::uint64_t const x = flipped(all, i)) readers ^= x, entries += readers != 0;
    done.count = static_cast<std::int32_t>(scan(team, entries, before, [](std::uint64_t a, std::uint64_t x) { return a + x; }));
    index_t at = to.own_at(to.row_at(row.b, row.head, row.tile)) + static_cast<index_t>(before);
    for (int i = begin; i < end; ++i) {
      std::uint64_t const x = flipped(all, i);
      if (x == 0) continue;
      std::int32_t const position = axis.position(first + i);
      if (mine.readers) to.own[at - 1].end = position;
      mine.readers ^= x;
      if (mine.readers) to.own[at].begin = position, to.members[at++] = mine.readers;
    }
    team.sync();  // everyone has read
    return done;
  }

  /// Adds to `start` the values of the members before this one; returns start and the values of all.
  LACUNA_ANY_TEAM
  template <class Team, class Add>
  LACUNA_HD static std::uint64_t scan(Team& team, std::uint64_t value, std::uint64_t& start, Add const& add) {
    std::uint64_t* const values = shares(team);
    values[team.rank()] = value;
    team.sync();
    std::uint64_t total = start;
    for (int r = 0; r < team.size(); ++r) {
      if (r == team.rank()) start = total;
      total = add(total, values[r]);
    }
    team.sync();  // everyone has read
    return total;
  }
};

static_assert(Body<union_lists>);

}  // namespace lacuna
