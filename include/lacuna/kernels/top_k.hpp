#pragma once
#include <lacuna/core/math.hpp>
#include <lacuna/exec/team.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace lacuna {

/// Keys that order like the floats they come from: -0 equals +0, NaN of either sign ranks below -inf.
LACUNA_HD constexpr std::uint32_t order_key(float x) {
  if (x != x) return 0;
  std::uint32_t const bits = bit_cast<std::uint32_t>(x == 0 ? 0.0f : x);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

/// What a selection does with an entry, whatever its score.
enum class standing : std::uint8_t { excluded, ranked, forced };

/// A row of scores to choose from. Scores of excluded and forced entries are never read.
template <class R>
concept ScoreRow = std::is_trivially_copyable_v<R> && requires(R const r, index_t i) {
  { r.size() } -> std::same_as<index_t>;
  { r.score(i) } -> std::same_as<float>;
  { r.standing_of(i) } -> std::same_as<standing>;
};

/// Scores in memory, all of them ranked.
struct plain_scores {
  float const* scores;
  index_t count;

  LACUNA_HD index_t size() const { return count; }
  LACUNA_HD float score(index_t i) const { return scores[i]; }
  LACUNA_HD standing standing_of(index_t) const { return standing::ranked; }
};

/// Exact selection from one row: the forced entries and, up to `keep` in all, the best ranked ones; of equal scores the lower index. Forced
/// entries count even if `keep` is smaller. Radix select over order_key: entries are never copied, so no buffer bounds the row, and the
/// result does not depend on the team's size. Teams of up to 2048 members.
template <ScoreRow Row>
struct top_k {
  Row row;
  index_t keep;

  static constexpr std::size_t scratch_bytes = 16 * 1024;

  /// Writes the chosen indices ascending; returns how many to every member. `out` has room for max(keep, forced) or the row, whichever is
  /// less. `scratch` may be used again after the next sync() only.
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD index_t operator()(Team& team, std::byte* scratch, std::int32_t* out) const {
    auto* const counts = reinterpret_cast<std::uint32_t*>(scratch);
    totals const t = tally(team, counts);
    cut const c = find_cut(team, counts, clamp<index_t>(keep - t.forced, 0, t.ranked), t.ranked);
    return write(team, counts, c, out);
  }

 private:
  static constexpr int counters = scratch_bytes / sizeof(std::uint32_t);

  struct totals {
    index_t forced, ranked;
  };

  /// Kept are keys above `key` and the first `ties` entries that equal it.
  struct cut {
    std::uint32_t key;
    index_t ties;
  };

  struct range {
    index_t begin, end;
  };

  /// A member's share of the row when order matters.
  LACUNA_HD range share(int rank, int size) const {
    index_t const each = ceil_div<index_t>(row.size(), size);
    return {min(rank * each, row.size()), min((rank + 1) * each, row.size())};
  }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD totals tally(Team& team, std::uint32_t* counts) const {
    std::uint32_t forced = 0, ranked = 0;
    for (index_t i = team.rank(); i < row.size(); i += team.size()) {
      standing const s = row.standing_of(i);
      forced += s == standing::forced, ranked += s == standing::ranked;
    }
    counts[2 * team.rank()] = forced, counts[2 * team.rank() + 1] = ranked;
    team.sync();
    totals t{0, 0};
    for (int r = 0; r < team.size(); ++r) t.forced += counts[2 * r], t.ranked += counts[2 * r + 1];
    team.sync();  // everyone has read
    return t;
  }

  /// Finds the key of the worst kept entry from its highest digit down. Every member gets the same answer.
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD cut find_cut(Team& team, std::uint32_t* counts, index_t want, index_t ranked) const {
    if (want == ranked) return {0, ranked};
    if (want == 0) return {0xffffffffu, 0};
    std::uint32_t prefix = 0;
    for (int shift = 32; shift > 0;) {
      int const bits = min(digit_bits(team.size()), shift);
      shift -= bits;
      count_digits(team, counts, prefix, shift, bits);
      std::uint32_t digit = (1u << bits) - 1;
      while (counts[digit * team.size()] < want) want -= counts[digit-- * team.size()];
      bool const whole = counts[digit * team.size()] == want;
      prefix = prefix << bits | digit;
      team.sync();  // everyone has read
      if (whole) return {prefix << shift, ranked};
    }
    return {prefix, want};
  }

  /// As many bits as give every member counters of its own, at most 11.
  LACUNA_HD static constexpr int digit_bits(int team_size) {
    int bits = 1;
    while (bits < 11 && (2 << bits) * team_size <= counters) ++bits;
    return bits;
  }

  /// Leaves in counts[digit * size] how many ranked keys start with `prefix` followed by that digit.
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void count_digits(Team& team, std::uint32_t* counts, std::uint32_t prefix, int shift, int bits) const {
    int const digits = 1 << bits, size = team.size();
    std::uint32_t* const own = counts + team.rank();
    for (int d = 0; d < digits; ++d) own[d * size] = 0;
    for (index_t i = team.rank(); i < row.size(); i += size) {
      if (row.standing_of(i) != standing::ranked) continue;
      std::uint64_t const key = order_key(row.score(i));
      if (key >> (shift + bits) == prefix) ++own[(key >> shift & (digits - 1)) * size];
    }
    team.sync();
    for (int d = team.rank(); d < digits; d += size)
      for (int r = 1; r < size; ++r) counts[d * size] += counts[d * size + r];
    team.sync();
  }

  /// +1 above the cut, 0 at it, -1 out.
  LACUNA_HD int side(index_t i, cut const& c) const {
    standing const s = row.standing_of(i);
    if (s != standing::ranked) return s == standing::forced ? 1 : -1;
    std::uint32_t const key = order_key(row.score(i));
    return key > c.key ? 1 : key == c.key ? 0 : -1;
  }

  /// Members write what they keep of their share behind what lower members keep.
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD index_t write(Team& team, std::uint32_t* counts, cut const& c, std::int32_t* out) const {
    range const mine = share(team.rank(), team.size());
    std::uint32_t above = 0, equal = 0;
    for (index_t i = mine.begin; i < mine.end; ++i) {
      int const s = side(i, c);
      above += s > 0, equal += s == 0;
    }
    counts[2 * team.rank()] = above, counts[2 * team.rank() + 1] = equal;
    team.sync();
    index_t at = 0, ties = 0, all_above = 0, all_equal = 0;
    for (int r = 0; r < team.size(); ++r) {
      if (r == team.rank()) at = all_above + min(all_equal, c.ties), ties = c.ties - all_equal;
      all_above += counts[2 * r], all_equal += counts[2 * r + 1];
    }
    for (index_t i = mine.begin; i < mine.end; ++i) {
      int const s = side(i, c);
      if (s > 0 || (s == 0 && ties-- > 0)) out[at++] = static_cast<std::int32_t>(i);
    }
    team.sync();  // all of `out` is there
    return all_above + min(all_equal, c.ties);
  }
};

/// The `keep` best of each row of a matrix. Block r is row r of [rows, count].
struct top_k_rows {
  float const* scores;
  index_t rows, count, keep;
  std::int32_t* chosen;        // [rows, min(keep, count)] ascending
  std::int32_t* chosen_count;  // [rows]

  LACUNA_HD index_t blocks() const { return rows; }
  LACUNA_HD std::size_t scratch_bytes() const { return top_k<plain_scores>::scratch_bytes; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t r) const {
    top_k<plain_scores> const select{{scores + r * count, count}, keep};
    index_t const n = select(team, team.scratch(), chosen + r * min(keep, count));
    if (team.rank() == 0) chosen_count[r] = static_cast<std::int32_t>(n);
  }
};

}  // namespace lacuna
