#pragma once
#include <lacuna/core/logits.hpp>
#include <lacuna/core/sparse_index.hpp>
#include <lacuna/core/tensor_view.hpp>
#include <lacuna/exec/executor.hpp>
#include <lacuna/kernels/attend_args.hpp>
#include <lacuna/kernels/static_lists.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace lacuna {

/// What a pattern may read to choose keys.
template <class T, class Kv>
struct build_inputs {
  using element = T;
  attention_shape shape;
  sequence_lengths lengths;
  tensor_view<T const, 4> q;  // [batch, token, query head, key dim]
  Kv kv;
  logit_transform logits;
};

/// Lists of an index that one launch builds, each with the amounts of its pattern. Passed to kernels by value, so it is bounded; longer
/// profiles take several launches.
template <class Pattern>
struct head_set {
  static constexpr int most = 32;
  int count = 0;
  std::int16_t list[most] = {};  // of the index, ascending
  Pattern pattern[most] = {};

  LACUNA_HD Pattern const& of(int i) const { return pattern[i]; }
};

/// Calls build(head_set) for lists 0 .. count-1 of the index, all with the same pattern, until one fails.
template <class Pattern, class Build>
status for_each_head_set(Pattern const& pattern, int count, Build const& build) {
  for (int first = 0; first < count; first += head_set<Pattern>::most) {
    head_set<Pattern> heads;
    for (int list = first; list < count && heads.count < heads.most; ++list, ++heads.count)
      heads.list[heads.count] = static_cast<std::int16_t>(list), heads.pattern[heads.count] = pattern;
    if (status s = build(heads); !s) return s;
  }
  return {};
}

/// Launches bodies one after the other until one is refused. A body without blocks is skipped.
template <class Exec, class... Bodies>
status launch_in_order(Exec const& exec, Bodies const&... bodies) {
  status s;
  static_cast<void>(((bodies.blocks() == 0 || (s = exec.launch({bodies.blocks(), 128}, bodies)).ok()) && ...));
  return s;
}

namespace detail {
struct no_launch {  // archetype of an executor
  template <class B>
  status launch(launch_shape, B const&) const {
    return {};
  }
  void* allocate(std::size_t) const { return nullptr; }
  void deallocate(void*, std::size_t) const {}
  status copy(void*, void const*, std::size_t) const { return {}; }
  status synchronize() const { return {}; }
  lacuna::target target() const { return lacuna::target::host; }
};

template <class T>
struct no_kv {  // archetype of a reader
  using element = T;
  LACUNA_HD T const* key(sequence const&, index_t, int, index_t) const { return nullptr; }
  LACUNA_HD T const* value(sequence const&, index_t, int, index_t) const { return nullptr; }
  LACUNA_HD index_t run(index_t) const { return 1; }
  LACUNA_HD index_t key_stride() const { return 0; }
  LACUNA_HD index_t value_stride() const { return 0; }
};
}  // namespace detail

/// A pattern that does not look at the data: a value that states each tile's list.
/// - `check(shape)` throws invalid_argument if an amount does not fit.
/// - `list(rows, first, sequence, causal)`: the list of a tile of `rows` query tokens whose first stands at position `first`; pure and
///   host-device. The spans may exceed the pattern by what the list's rule excludes, never fall short of it, and depend on `rows` only.
template <class P>
concept StaticPattern = std::is_trivially_copyable_v<P> && requires(P const p, attention_shape const& shape, sequence const& s, index_t at) {
  p.check(shape);
  { p.list(at, at, s, true) } -> std::same_as<static_list>;
};

/// A pattern that looks at queries and keys.
/// - `granularity`: own spans start and end at its multiples, except where clipped.
/// - `check(shape)` throws invalid_argument if an amount or the shape does not fit.
/// - `lists(shape)`: heads of the index: 1, kv_heads or query_heads. `tile_rows()`: query tokens that share a list.
/// - `capacity(shape)`: most entries per row and head; `workspace_bytes(shape)`: memory that build needs besides the index.
/// - `build(exec, inputs, workspace, index, heads)`: fills the lists named by `heads`, each with its own amounts, asynchronously.
template <class P>
concept BuiltPattern =
    std::is_trivially_copyable_v<P> &&
    requires(P const p, attention_shape const& shape, detail::no_launch const& exec, build_inputs<float, detail::no_kv<float>> const& inputs,
             std::byte* workspace, sparse_index const& index, head_set<P> const& heads) {
      { P::granularity } -> std::convertible_to<int>;
      p.check(shape);
      { p.lists(shape) } -> std::same_as<int>;
      { p.tile_rows() } -> std::same_as<int>;
      { p.capacity(shape) } -> std::same_as<index_capacity>;
      { p.workspace_bytes(shape) } -> std::same_as<std::size_t>;
      { P::build(exec, inputs, workspace, index, heads) } -> std::same_as<status>;
    };

/// What the facade asks of any pattern: lists(), tile_rows(), capacity(), workspace_bytes(), granularity, and build_all(), which fills
/// every list of the index. StaticPattern and BuiltPattern have it; a pattern of another form (per_head) specialises it.
template <class P>
struct pattern_traits;

template <BuiltPattern P>
struct pattern_traits<P> {
  static constexpr int granularity = P::granularity;
  static int lists(P const& p, attention_shape const& s) { return p.lists(s); }
  static int tile_rows(P const& p) { return p.tile_rows(); }
  static index_capacity capacity(P const& p, attention_shape const& s) { return p.capacity(s); }
  static std::size_t workspace_bytes(P const& p, attention_shape const& s) { return p.workspace_bytes(s); }

  template <class Exec, class Inputs>
  static status build(Exec const& exec, Inputs const& in, std::byte* workspace, sparse_index const& index, head_set<P> const& heads) {
    return P::build(exec, in, workspace, index, heads);
  }

  template <class Exec, class Inputs>
  static status build_all(P const& p, Exec const& exec, Inputs const& in, std::byte* workspace, sparse_index const& index) {
    return for_each_head_set(p, index.heads, [&](head_set<P> const& heads) { return build(exec, in, workspace, index, heads); });
  }
};

/// Whether lists of a pattern may have columns. A pattern that says `static constexpr bool columns = false` spares its users the kernels
/// that read them.
template <class P>
inline constexpr bool may_have_columns = !StaticPattern<P>;
template <class P>
requires requires { P::columns; }
inline constexpr bool may_have_columns<P> = P::columns;

/// Static patterns have one list for all heads, need no workspace and are built in one launch.
template <StaticPattern P>
struct pattern_traits<P> {
  static constexpr int granularity = 1;
  static int lists(P const&, attention_shape const&) { return 1; }
  static int tile_rows(P const&) { return 64; }
  static index_capacity capacity(P const&, attention_shape const&) { return {.spans = 1, .shared_spans = static_list::most}; }
  static std::size_t workspace_bytes(P const&, attention_shape const&) { return 0; }

  template <class Exec, class Inputs>
  static status build(Exec const& exec, Inputs const& in, std::byte*, sparse_index const& index, head_set<P> const& heads) {
    return launch_in_order(exec, static_lists<head_set<P>>{in.shape, in.lengths, index, heads});
  }

  template <class Exec, class Inputs>
  static status build_all(P const& p, Exec const& exec, Inputs const& in, std::byte* workspace, sparse_index const& index) {
    return for_each_head_set(p, index.heads, [&](head_set<P> const& heads) { return build(exec, in, workspace, index, heads); });
  }
};

/// A pattern whose members say how all lists of an index are built.
template <class P>
concept SparsePattern = std::copyable<P> && requires(P const p, attention_shape const& shape, detail::no_launch const& exec,
                                                     build_inputs<float, detail::no_kv<float>> const& inputs, std::byte* workspace,
                                                     sparse_index const& index) {
  { pattern_traits<P>::granularity } -> std::convertible_to<int>;
  p.check(shape);
  { pattern_traits<P>::lists(p, shape) } -> std::same_as<int>;
  { pattern_traits<P>::tile_rows(p) } -> std::same_as<int>;
  { pattern_traits<P>::capacity(p, shape) } -> std::same_as<index_capacity>;
  { pattern_traits<P>::workspace_bytes(p, shape) } -> std::same_as<std::size_t>;
  { pattern_traits<P>::build_all(p, exec, inputs, workspace, index) } -> std::same_as<status>;
};

/// Builds every list of the index.
template <SparsePattern P, class Exec, class Inputs>
status build_all(P const& p, Exec const& exec, Inputs const& in, std::byte* workspace, sparse_index const& index) {
  return pattern_traits<P>::build_all(p, exec, in, workspace, index);
}

}  // namespace lacuna
