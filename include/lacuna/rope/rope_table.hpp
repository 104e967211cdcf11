#pragma once
#include <lacuna/core/error.hpp>
#include <lacuna/core/math.hpp>
#include <lacuna/exec/team.hpp>

#include <cmath>
#include <vector>

namespace lacuna {

/// Which two dims of a head turn together.
enum class rope_pairing {
  halves,      // (i, i + dim / 2): NeoX, most checkpoints
  neighbours,  // (2 i, 2 i + 1): GPT-J
};

/// Cosines and sines of positions 0 .. positions - 1. A view of memory that the bodies reach. Dims of a head past `dim` do not turn.
struct rope_table {
  float const* cosines = nullptr;  // [positions, dim / 2]
  float const* sines = nullptr;    // [positions, dim / 2]
  index_t positions = 0;
  int dim = 0;  // even
  rope_pairing pairing = rope_pairing::halves;

  LACUNA_HD constexpr int pairs() const { return dim / 2; }
  LACUNA_HD constexpr int first_of(int pair) const { return pairing == rope_pairing::halves ? pair : 2 * pair; }
  LACUNA_HD constexpr int second_of(int pair) const { return pairing == rope_pairing::halves ? pair + pairs() : 2 * pair + 1; }
  LACUNA_HD constexpr float const* cosines_at(index_t position) const { return cosines + position * pairs(); }
  LACUNA_HD constexpr float const* sines_at(index_t position) const { return sines + position * pairs(); }

  friend bool operator==(rope_table const&, rope_table const&) = default;
};

/// Cosine and sine of position * radians, right to fp32 at any position below 2^30: the product is formed, and whole turns are taken out of
/// it, in double; an fp32 product would be wrong by 0.09 at position 3M.
struct rope_angle {
  float cosine, sine;

  LACUNA_HD static rope_angle at(index_t position, double radians) {
    double const angle = static_cast<double>(position) * radians;
#ifdef __CUDA_ARCH__
    double const halves = angle * 0.31830988618379067154;  // of a turn; cospi needs no table in local memory
    return {static_cast<float>(cospi(halves)), static_cast<float>(sinpi(halves))};
#else
    return {static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))};
#endif
  }
};

/// Fills a table where it lies. Block: 64 positions.
struct fill_rope_table {
  double const* radians;  // [dim / 2] by which a pair turns from one position to the next
  float* cosines;         // [positions, dim / 2]
  float* sines;           // [positions, dim / 2]
  index_t positions;
  int dim;

  static constexpr int rows = 64;

  LACUNA_HD index_t blocks() const { return ceil_div<index_t>(positions, rows); }
  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
    int const pairs = dim / 2;
    index_t const first = block * rows * pairs, end = min<index_t>((block + 1) * rows, positions) * pairs;
    for (index_t at = first + team.rank(); at < end; at += team.size()) {
      rope_angle const a = rope_angle::at(at / pairs, radians[at % pairs]);
      cosines[at] = a.cosine, sines[at] = a.sine;
    }
  }
};

/// A table in host memory that owns what it shows.
class host_rope_table {
 public:
  /// `radians` [dim / 2]: see rope_frequencies.hpp. Throws invalid_argument.
  host_rope_table(std::vector<double> const& radians, index_t positions, rope_pairing pairing = rope_pairing::halves)
      : positions_{positions}, dim_{static_cast<int>(2 * radians.size())}, pairing_{pairing} {
    require(!radians.empty(), "radians has no pair; expected at least one");
    require(positions >= 1 && positions <= index_t{1} << 30, "positions is ", positions, "; expected 1 to 2^30");
    auto const count = static_cast<std::size_t>(positions) * radians.size();
    cosines_.resize(count), sines_.resize(count);
    fill_rope_table const body{radians.data(), cosines_.data(), sines_.data(), positions, dim_};
    serial_team team{nullptr};
    for (index_t block = 0; block < body.blocks(); ++block) body(team, block);
  }

  rope_table view() const { return {cosines_.data(), sines_.data(), positions_, dim_, pairing_}; }

 private:
  index_t positions_;
  int dim_;
  rope_pairing pairing_;
  std::vector<float> cosines_, sines_;
};

/// Throws invalid_argument unless the table turns heads of key_dim and has `needed` positions.
inline void check_rope_table(char const* name, rope_table const& t, int key_dim, index_t needed) {
  require(t.cosines && t.sines, name, " has no table; a style other than as_given turns queries and keys");
  require(t.dim >= 2 && t.dim % 2 == 0 && t.dim <= key_dim, name, " turns ", t.dim, " dims; expected an even number from 2 to key_dim ",
          key_dim);
  require(t.positions >= needed, name, " has a table of ", t.positions, " positions; this style reaches ", needed);
}

}  // namespace lacuna
