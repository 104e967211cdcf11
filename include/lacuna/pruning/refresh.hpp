#pragma once
#include <lacuna/core/error.hpp>
#include <lacuna/core/math.hpp>
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

/// Whether a stage runs at this step, decided where the bodies run: no host decision, so one captured graph serves every step.
struct refresh_gate {
  refresh_schedule schedule = {};
  std::int32_t const* steps = nullptr;  // [batch] done since the sequence started; null: every stage runs
  std::int32_t ahead = 0;               // of the schedule

  LACUNA_HD constexpr bool due(index_t b, int stage) const {
    if (!steps || steps[b] == 0) return true;
    for (int i = 0; i <= stage; ++i)
      if ((steps[b] + ahead) % schedule.every[i] == 0) return true;
    return false;
  }
};

/// Moves step counters on, or back to 0. Block: 128 counters.
struct count_steps {
  std::int32_t* steps;  // [count], `stride` apart
  index_t count, stride;
  bool restart;

  static constexpr int counters = 128;

  LACUNA_HD index_t blocks() const { return ceil_div<index_t>(count, counters); }
  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
    index_t const end = min<index_t>((block + 1) * counters, count);
    for (index_t i = block * counters + team.rank(); i < end; i += team.size()) steps[i * stride] = restart ? 0 : steps[i * stride] + 1;
  }
};

}  // namespace lacuna
