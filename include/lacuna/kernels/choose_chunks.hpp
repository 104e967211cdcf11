#pragma once
#include <lacuna/core/logits.hpp>
#include <lacuna/kernels/top_k.hpp>
#include <lacuna/pruning/chooser.hpp>

#include <cmath>

namespace lacuna {

/// Chooses among a row of scores (products, not yet logits) what a chunk chooser keeps, at most `budget`. Results do not depend on the
/// team's size.
template <ChunkChooser Chooser>
struct choose_chunks {
  Chooser chooser;
  logit_transform logits;
  plain_scores row;
  index_t budget;

  static constexpr std::size_t scratch_bytes = top_k<plain_scores>::scratch_bytes;

  /// Writes the chosen indices ascending and returns how many to every member. `scratch` may be used again after the next sync() only.
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD index_t operator()(Team& team, std::byte* scratch, std::int32_t* out) const {
    index_t keep = min(budget, row.count);
    if constexpr (MassChooser<Chooser>) keep = min(keep, fewest(team, reinterpret_cast<float*>(scratch)));
    if constexpr (LogitChooser<Chooser>) keep = min(keep, near(team, reinterpret_cast<float*>(scratch)));
    return top_k<plain_scores>{row, keep}(team, scratch, out);
  }

 private:
  static constexpr int lanes = 256;  // sums are formed by lane, then lane by lane, whatever the team's size

  LACUNA_HD float logit(index_t i) const { return logits(row.scores[i]); }

  /// Folds term(i) over the row.
  LACUNA_ANY_TEAM
  template <class Team, class Term, class Fold>
  LACUNA_HD float fold(Team& team, float* scratch, float start, Term const& term, Fold const& join) const {
    for (int lane = team.rank(); lane < lanes; lane += team.size()) {
      float sum = start;
      for (index_t i = lane; i < row.count; i += lanes) sum = join(sum, term(i));
      scratch[lane] = sum;
    }
    team.sync();
    float sum = start;
    for (int lane = 0; lane < lanes; ++lane) sum = join(sum, scratch[lane]);
    team.sync();  // everyone has read
    return sum;
  }

  struct larger {
    LACUNA_HD float operator()(float a, float b) const { return max(a, b); }
  };
  struct plus {
    LACUNA_HD float operator()(float a, float b) const { return a + b; }
  };
  struct its_logit {
    choose_chunks const& c;
    LACUNA_HD float operator()(index_t i) const { return c.logit(i); }
  };
  struct stays_near {
    choose_chunks const& c;
    float best;
    LACUNA_HD float operator()(index_t i) const { return c.chooser.keeps(c.logit(i), best) ? 1.0f : 0.0f; }
  };
  struct mass_from {
    choose_chunks const& c;
    float best;
    std::uint32_t key;  // scores that order below it do not count
    LACUNA_HD float operator()(index_t i) const { return order_key(c.row.scores[i]) >= key ? std::exp(c.logit(i) - best) : 0.0f; }
  };
  struct counts_from {
    choose_chunks const& c;
    std::uint32_t key;
    LACUNA_HD float operator()(index_t i) const { return order_key(c.row.scores[i]) >= key ? 1.0f : 0.0f; }
  };

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD index_t near(Team& team, float* scratch) const {
    float const best = fold(team, scratch, -infinity, its_logit{*this}, larger{});
    return static_cast<index_t>(fold(team, scratch, 0, stays_near{*this, best}, plus{}));
  }

  /// The key of the worst chunk that is needed, bit by bit from the highest; then how many of its equals.
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD index_t fewest(Team& team, float* scratch) const {
    float const best = fold(team, scratch, -infinity, its_logit{*this}, larger{});
    if (!(best > -infinity)) return row.count;
    float const wanted = chooser.mass * fold(team, scratch, 0, mass_from{*this, best, 0}, plus{});
    std::uint32_t key = 0;
    for (std::uint32_t bit = 0x80000000u; bit != 0; bit >>= 1)
      if (fold(team, scratch, 0, mass_from{*this, best, key | bit}, plus{}) >= wanted) key |= bit;
    if (key == 0xffffffffu) return 1;
    float const above = fold(team, scratch, 0, mass_from{*this, best, key + 1}, plus{});
    index_t const better = static_cast<index_t>(fold(team, scratch, 0, counts_from{*this, key + 1}, plus{}));
    index_t const equal = static_cast<index_t>(fold(team, scratch, 0, counts_from{*this, key}, plus{})) - better;
    float const all = fold(team, scratch, 0, mass_from{*this, best, key}, plus{});
    if (!(all > above) || equal == 0) return better + equal;
    float const each = (all - above) / static_cast<float>(equal);
    return better + clamp<index_t>(static_cast<index_t>(std::ceil((wanted - above) / each)), 1, equal);
  }
};

}  // namespace lacuna
