#pragma once
#include <lacuna/exec/workspace.hpp>
#include <lacuna/pattern/pruned.hpp>

#include <concepts>
#include <vector>

namespace lacuna {

/// What pruning kept in earlier decode steps, for every layer and sequence, and how many steps ago: stages run again when the schedule says
/// so, decided where the bodies run, and otherwise their results are read once more. Tokens that have left the window since are attended to
/// as well, so nothing is lost between refreshes. Owns memory of the executor. [InfiniteHiP, mask caching]
template <class Pattern, class Exec>
requires Executor<Exec>
class index_cache {
 public:
  /// `layers`: the pattern of each layer. `shape`: capacities, those of the plan. All sequences start anew. Throws invalid_argument.
  index_cache(Exec exec, std::vector<Pattern> layers, attention_shape const& shape, refresh_schedule const& schedule)
      : exec_{std::move(exec)},
        layers_{checked(std::move(layers), shape, schedule)},
        shape_{shape},
        schedule_{schedule},
        begin_{begins(layers_, shape)},
        memory_{exec_, begin_.back()},
        states_{exec_, static_cast<std::size_t>(shape.batch) * layers_.size() * sizeof(refresh_state)} {
    launch_in_order(exec_, restart_states{states(0), shape.batch * static_cast<index_t>(layers_.size()), 1}).or_throw();
  }

  int layers() const { return static_cast<int>(layers_.size()); }
  Pattern const& pattern(int layer) const { return layers_[static_cast<std::size_t>(layer)]; }
  attention_shape const& shape() const { return shape_; }
  refresh_schedule const& schedule() const { return schedule_; }
  std::size_t bytes() const { return memory_.bytes() + states_.bytes(); }

  /// Tokens that a list may be behind of its sequence: one that grows by more than the plan's queries from a step to the next starts anew.
  index_t most_behind() const { return schedule_.every[0] * shape_.queries; }

  /// Sequence b starts anew in all layers: another request has taken its place, or keys that it had were replaced. One that has become
  /// shorter, has grown by more than a step's tokens or has more queries than the step before does so by itself.
  status restart(index_t b) const {
    if (b < 0 || b >= shape_.batch) return refuse("sequence is ", b, "; the cache has ", shape_.batch);
    return launch_in_order(exec_, restart_states{states(0) + b, static_cast<index_t>(layers_.size()), shape_.batch});
  }

  /// One step of a layer: runs the stages that are due, fills the index and moves the layer's counters on. sparse_attention::build() calls
  /// it and checks its arguments before.
  template <class Inputs>
  status build(Inputs const& in, int layer, std::byte* scratch, sparse_index const& index) const {
    Pattern const& p = pattern(layer);
    scan_memory const memory{memory_.data() + begin_[static_cast<std::size_t>(layer)], scratch, shape_};
    if (status s = p.scan(exec_, in, index.causal, memory, gate(layer)); !s) return s;
    if (status s = p.write(exec_, in.shape, in.lengths, memory, index); !s) return s;
    return launch_in_order(exec_, count_steps{gate(layer), states(layer), in.shape, in.lengths});
  }

  refresh_gate gate(int layer) const {
    return {schedule_, states(layer), index_t{schedule_.stagger} * layer, shape_.queries, pattern(layer).query_stride > 1};
  }

 private:
  refresh_state* states(int layer) const { return reinterpret_cast<refresh_state*>(states_.data()) + layer * shape_.batch; }

  static std::vector<Pattern> checked(std::vector<Pattern> layers, attention_shape const& shape, refresh_schedule const& schedule) {
    require(!layers.empty(), "the cache has no layers; expected at least 1");
    lacuna::check(shape);
    schedule.check(Pattern::stages);
    for (Pattern const& p : layers) p.check(shape);
    return layers;
  }

  /// Where each layer's memory begins, and where the last one's ends.
  static std::vector<std::size_t> begins(std::vector<Pattern> const& layers, attention_shape const& shape) {
    std::vector<std::size_t> at{0};
    for (Pattern const& p : layers) at.push_back(at.back() + p.kept_bytes(shape));
    return at;
  }

  Exec exec_;
  std::vector<Pattern> layers_;
  attention_shape shape_;
  refresh_schedule schedule_;
  std::vector<std::size_t> begin_;
  workspace<Exec> memory_, states_;
};

}  // namespace lacuna
