#pragma once
#include <lacuna/core/error.hpp>
#include <lacuna/core/math.hpp>
#include <lacuna/core/shape.hpp>
#include <lacuna/exec/team.hpp>

#include <cstdint>

namespace lacuna {

/// After how many decode steps each pruning stage runs again; a stage that runs makes all later ones run. [InfiniteHiP, mask caching]
struct refresh_schedule {
  static constexpr int most_stages = 8;
  std::int32_t every[most_stages] = {1, 1, 1, 1, 1, 1, 1, 1};  // steps, stage by stage
  std::int32_t stagger = 0;  // steps by which a layer is ahead of the one before, so that no step pays for all layers

  /// Throws invalid_argument.
  void check(int stages) const {
    require(stages <= most_stages, "pattern has ", stages, " stages; a schedule has at most ", most_stages);
    for (int i = 0; i < stages; ++i) require(every[i] >= 1, "refresh of stage ", i, " is ", every[i], "; expected at least 1 step");
    require(stagger >= 0, "stagger is ", stagger, "; expected at least 0 steps");
  }

  friend bool operator==(refresh_schedule const&, refresh_schedule const&) = default;
};

/// The paper's presets for three stages.
inline constexpr refresh_schedule refresh_default{{16, 8, 4}}, refresh_fast{{32, 16, 8}}, refresh_flash{{96, 24, 8}};

/// What a step leaves behind of a sequence, for the next one to tell whether its lists still fit.
struct refresh_state {
  std::int32_t steps;    // done since the sequence started anew; 0: nothing is known, nor what follows
  std::int32_t first;    // position of the last step's first query
  std::int32_t queries;  // of the last step
};

/// Whether a stage runs at this step, decided where the bodies run: no host decision, so one captured graph serves every step. A sequence
/// starts anew by itself where lists of earlier steps do not fit: it has become shorter, has grown by more than `most_growth` tokens since
/// the last step, or has more queries than then.
struct refresh_gate {
  refresh_schedule schedule = {};
  refresh_state const* states = nullptr;  // [batch]; null: every stage runs
  index_t ahead = 0;                      // of the schedule, in steps
  index_t most_growth = 0;
  bool same_queries = false;  // lists fit steps of the same number of queries only: some blocks read the lists of others

  LACUNA_HD constexpr bool anew(index_t b, sequence const& s) const {
    refresh_state const& last = states[b];
    if (last.steps == 0) return true;
    index_t const grown = s.position(0) - last.first;
    return grown < 0 || grown > most_growth || s.queries > last.queries || (same_queries && s.queries != last.queries);
  }

  LACUNA_HD constexpr bool due(index_t b, sequence const& s, int stage) const {
    if (!states || anew(b, s)) return true;
    for (int i = 0; i <= stage; ++i)
      if ((states[b].steps + ahead) % schedule.every[i] == 0) return true;
    return false;
  }
};

/// Moves the states of a layer on by a step. Block: 128 sequences.
struct count_steps {
  refresh_gate gate;
  refresh_state* states;  // [batch], those of the gate
  attention_shape shape;
  sequence_lengths lengths;

  static constexpr int sequences = 128;

  LACUNA_HD index_t blocks() const { return ceil_div<index_t>(shape.batch, sequences); }
  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
    index_t const end = min<index_t>((block + 1) * sequences, shape.batch);
    for (index_t b = block * sequences + team.rank(); b < end; b += team.size()) {
      sequence const s = sequence_at(lengths, shape, b);
      std::int32_t const steps = gate.anew(b, s) ? 1 : states[b].steps + 1;
      states[b] = {steps, static_cast<std::int32_t>(s.position(0)), static_cast<std::int32_t>(s.queries)};
    }
  }
};

/// Sequences start anew. Block: 128 of them.
struct restart_states {
  refresh_state* states;  // [count], `stride` apart
  index_t count, stride;

  static constexpr int each = 128;

  LACUNA_HD index_t blocks() const { return ceil_div<index_t>(count, each); }
  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
    index_t const end = min<index_t>((block + 1) * each, count);
    for (index_t i = block * each + team.rank(); i < end; i += team.size()) states[i * stride].steps = 0;
  }
};

}  // namespace lacuna
