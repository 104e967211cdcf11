#pragma once
#include <lacuna/exec/host_executor.hpp>
#include <lacuna/kernels/host/last_query_scores.hpp>
#include <lacuna/kernels/slash_estimate.hpp>
#include <lacuna/kernels/slash_lists.hpp>
#include <lacuna/kernels/slash_sets.hpp>
#include <lacuna/pattern/pattern.hpp>

namespace lacuna {

/// Columns and diagonals that hold the last queries' attention: every query reads the chosen columns and, for each chosen distance D, key
/// i - D, widened to what any query of its tile reads. Per query head. [MInference, section 3]
/// A sequence that turns out to have more queries than keys gets the lists of its last `keys` queries; planning for that is refused.
struct vertical_slash {
  std::int32_t verticals = 1000;    // columns, the first ones included
  std::int32_t slashes = 6096;      // distances, the nearest ones included
  std::int32_t first = 30;          // columns kept whatever their sum, even beyond `verticals`
  std::int32_t nearest = 100;       // distances kept whatever their sum, even beyond `slashes`; distance 0 always is
  std::int32_t estimate_rows = 64;  // last queries that stand for all; 1 to 128
  std::int32_t tile = 64;           // queries that share what they read; part of the result. 1 to 256

  static constexpr int granularity = 1;
  static constexpr int most_tile = 256;

  void check(attention_shape const& s) const {
    require(verticals >= 0, "verticals is ", verticals, "; expected at least 0");
    require(slashes >= 0, "slashes is ", slashes, "; expected at least 0");
    require(first >= 0, "first is ", first, "; expected at least 0");
    require(nearest >= 0, "nearest is ", nearest, "; expected at least 0");
    require(estimate_rows >= 1 && estimate_rows <= slash_sums::most_rows, "estimate_rows is ", estimate_rows, "; expected 1 to ",
            slash_sums::most_rows);
    require(tile >= 1 && tile <= most_tile, "tile is ", tile, "; expected 1 to ", most_tile);
    require(s.queries <= s.keys, "queries is ", s.queries, ", keys is ", s.keys,
            "; vertical_slash expects at most as many queries as keys");
  }

  int lists(attention_shape const& s) const { return s.query_heads; }
  int tile_rows() const { return tile; }

  /// The nearest distances touch and make one span.
  index_capacity capacity(attention_shape const& s) const {
    index_t const forced = max(nearest, 1), apart = min<index_t>(max<index_t>(slashes - forced, 0), most_distances(s));
    return {.shared_spans = static_cast<int>(1 + apart), .columns = static_cast<int>(min<index_t>(max(verticals, first), s.keys))};
  }

  std::size_t workspace_bytes(attention_shape const& s) const {
    detail::carver count{nullptr};
    memory::carve(count, s, min(s.query_heads, head_set<vertical_slash>::most), distances(s));
    return count.bytes();
  }

  template <class Exec, class Inputs>
  static status build(Exec const& exec, Inputs const& in, std::byte* workspace, sparse_index const& index,
                      head_set<vertical_slash> const& heads) {
    index_t most = 0;
    for (int i = 0; i < heads.count; ++i) most = max(most, heads.of(i).distances(in.shape));
    detail::carver block{workspace};
    memory const m = memory::carve(block, in.shape, heads.count, most);
    if (status s = estimate(exec, in, index.causal, heads, m); !s) return s;
    using chosen = estimated_slashes<head_set<vertical_slash>>;
    return launch_in_order(exec,
                           slash_lists<head_set<vertical_slash>, chosen>{in.shape, in.lengths, index, heads,
                                                                         chosen{heads, m.sums, index.causal}, m.chosen, most},
                           slash_column_bits<head_set<vertical_slash>>{in.shape, in.lengths, index, heads});
  }

  friend bool operator==(vertical_slash const&, vertical_slash const&) = default;

 private:
  struct memory {
    slash_sums sums;
    slash_parts parts;
    std::int32_t* chosen;

    static memory carve(detail::carver& block, attention_shape const& s, int heads, index_t distances) {
      memory m;
      index_t const lists = s.batch * heads, chunks = ceil_div<index_t>(s.keys, slash_parts::chunk);
      m.sums.keys = s.keys, m.parts.chunks = chunks;
      m.sums.columns = block.take<float>(lists * s.keys);
      m.sums.distances = block.take<float>(lists * m.sums.distance_stride());
      m.parts.states = block.take<softmax_state>(lists * chunks * slash_sums::most_rows);
      m.parts.lse = block.take<float>(lists * slash_sums::most_rows);
      m.parts.distances = block.take<float>(lists * chunks * slash_parts::chunk_distances);
      m.chosen = block.take<std::int32_t>(lists * distances);
      return m;
    }
  };

  /// Distances that any query of the shape has.
  static constexpr index_t most_distances(attention_shape const& s) { return s.keys + slash_sums::most_rows - 1; }
  index_t distances(attention_shape const& s) const { return min<index_t>(max(max(slashes, nearest), 1), most_distances(s)); }

  /// Column and distance sums of the last queries.
  template <class Exec, class Inputs>
  static status estimate(Exec const& exec, Inputs const& in, bool causal, head_set<vertical_slash> const& heads, memory const& m) {
    using args = slash_estimate<Inputs, head_set<vertical_slash>>;
    args const e{in, heads, causal, m.sums, m.parts};
    if constexpr (std::same_as<Exec, host_executor>)
      return estimate_on_host(exec, e);
    else
      return launch_in_order(exec, slash_chunk_states<args>{e}, slash_row_lse<args>{e}, slash_chunk_sums<args>{e},
                             slash_join_distances<args>{e});
  }

  /// The same sums in vector registers, one list a task.
  template <class Inputs>
  static status estimate_on_host(host_executor const& exec, slash_estimate<Inputs, head_set<vertical_slash>> const& e) {
    using element = typename Inputs::element;
    using kv = decltype(Inputs::kv);
    static_assert(slash_sums::most_rows == last_queries<element, kv>::most_rows);
    host_isa const isa = best_host_isa();
    exec.for_each(e.lists(), host_slash_scratch_bytes<element, kv>(e.in.shape.key_dim), [&](index_t list, std::byte* scratch) {
      auto const t = e.list_at(list);
      last_queries<element, kv> const queries{.s = t.s,
                                              .b = t.b,
                                              .kv_head = t.kv_head,
                                              .rows = t.rows,
                                              .q = t.q,
                                              .q_stride = e.in.q.stride[1],
                                              .kv = e.in.kv,
                                              .shape = e.in.shape,
                                              .logits = e.in.logits,
                                              .causal = e.causal};
      if (t.rows > 0) host_slash_sums(queries, isa, e.sums.columns_of(list), e.sums.distances_of(list), scratch);
    });
    return {};
  }
};

static_assert(BuiltPattern<vertical_slash> && SparsePattern<vertical_slash>);

/// Entries per list and room for an index of the given sets.
inline index_capacity slash_sets_capacity(attention_shape const& s, slash_sets const& sets) {
  return {.shared_spans = static_cast<int>(min(sets.distances.extent[2], s.keys + s.queries)),
          .columns = static_cast<int>(min(sets.verticals.extent[2], s.keys))};
}

namespace detail {
struct slash_sets_memory {
  given_slashes given;
  std::int32_t* chosen;
  index_t most_chosen;

  static slash_sets_memory carve(carver& block, attention_shape const& s, slash_sets const& sets) {
    slash_sets_memory m;
    index_t const lists = s.batch * sets.distances.extent[1];
    m.given.keys = s.keys, m.given.reach = max<index_t>(s.queries - 1, 0);
    m.most_chosen = slash_sets_capacity(s, sets).shared_spans;
    m.given.column_flags = block.take<std::uint8_t>(lists * s.keys);
    m.given.distance_flags = block.take<std::uint8_t>(lists * (m.given.reach + s.keys));
    m.chosen = block.take<std::int32_t>(lists * m.most_chosen);
    return m;
  }
};
}  // namespace detail

/// Bytes of workspace that build_slash_sets needs.
inline std::size_t slash_sets_workspace_bytes(attention_shape const& s, slash_sets const& sets) {
  detail::carver count{nullptr};
  detail::slash_sets_memory::carve(count, s, sets);
  return count.bytes();
}

/// Fills a vertical-slash index from sets chosen elsewhere, one for each of the index's lists. The index has tile_rows of the caller's
/// choice and slash_sets_capacity(shape, sets). [batch, index.heads, entries] sets in memory that the executor's bodies reach.
template <class Exec>
status build_slash_sets(Exec const& exec, attention_shape const& shape, sequence_lengths const& lengths, slash_sets const& sets,
                        std::byte* workspace, sparse_index const& index) {
  for (auto const* set : {&sets.verticals, &sets.distances})
    if (set->extent[0] != shape.batch || set->extent[1] != index.heads)
      return refuse("sets are [", set->extent[0], ", ", set->extent[1], ", ...]; expected [", shape.batch, ", ", index.heads, ", ...]");
  index_capacity const needed = slash_sets_capacity(shape, sets);
  if (index.capacity.shared_spans < needed.shared_spans || index.capacity.columns < needed.columns)
    return refuse("the index has room for ", index.capacity.shared_spans, " spans and ", index.capacity.columns, " columns; the sets need ",
                  needed.shared_spans, " and ", needed.columns);
  detail::carver block{workspace};
  auto const m = detail::slash_sets_memory::carve(block, shape, sets);
  every_list const lists{.count = index.heads, .list = {}};
  return launch_in_order(exec, mark_slash_sets{shape, lengths, index.heads, index.causal, sets, m.given},
                         slash_lists<every_list, given_slashes>{shape, lengths, index, lists, m.given, m.chosen, m.most_chosen},
                         slash_column_bits<every_list>{shape, lengths, index, lists});
}

}  // namespace lacuna
