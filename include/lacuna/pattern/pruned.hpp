#pragma once
#include <lacuna/kernels/host/host_scan.hpp>
#include <lacuna/kernels/pruned_lists.hpp>
#include <lacuna/kernels/scan_stage.hpp>
#include <lacuna/pattern/pattern.hpp>
#include <lacuna/pruning/stage_list.hpp>

#include <array>

namespace lacuna {

/// Who shares a list of kept keys.
enum class mask_scope {
  layer,    // all heads: the paper
  kv_head,  // the heads of a KV head: independent of tensor parallelism, and keys are read once
  query_head,
};

/// Memory of a pruning run, laid out for the capacities it was made for.
struct scan_memory {
  std::byte* kept;     // kept_bytes(capacity): what the stages kept
  std::byte* scratch;  // scratch_bytes(capacity)
  attention_shape capacity;
};

/// Sinks, a window, and what stage after stage of pruning keeps of the keys between. Stage i scores the chunks that stage i - 1 kept;
/// chunks shrink from stage to stage and so do budgets. Text no longer than sinks + window + the last budget is read whole. [InfiniteHiP]
///
///   using stages = pruned<chunk_scan<256>, chunk_scan<32>, chunk_scan<8>>;
///   stages{.sinks = 256, .window = 1024,
///          .stage = {chunk_scan<256>{.keep = 32'768}, chunk_scan<32>{.keep = 8'192}, chunk_scan<8>{.keep = 2'048}}};
template <PruningStage... Stages>
struct pruned {
  static_assert(sizeof...(Stages) >= 1, "pruned<> needs a stage");

  std::int32_t sinks = 256;      // first tokens, read by every query; a multiple of the last chunk
  std::int32_t window = 1024;    // tokens before each tile of queries that its queries read besides the tile; at least the first chunk
  std::int32_t scan_window = 0;  // tokens before each scanned block that are not scanned; 0: the window
  mask_scope scope = mask_scope::kv_head;
  std::int32_t query_stride = 1;  // every so many blocks of the first stage are scanned, the last one among them
  scan_rope rope = {};
  stage_list<Stages...> stage = {};

  static constexpr int stages = sizeof...(Stages);
  static constexpr std::array<int, sizeof...(Stages)> chunks{Stages::chunk...};
  static constexpr int granularity = chunks.back();
  static constexpr bool columns = false;
  static constexpr bool reads_summaries = (KeySummary<typename Stages::rule_type> || ...);

  void check(attention_shape const& s) const {
    require(s.queries <= s.keys, "queries is ", s.queries, ", keys is ", s.keys, "; pruned expects at most as many queries as keys");
    require(sinks >= 0 && sinks % granularity == 0, "sinks is ", sinks, "; expected a multiple of the last chunk of ", granularity);
    require(window >= chunks[0], "window is ", window, "; expected at least the first chunk of ", chunks[0]);
    require(scan_window >= 0, "scan_window is ", scan_window, "; expected at least 0");
    require(!reads_summaries || scan_window == 0 || scan_window >= chunks[0], "scan_window is ", scan_window,
            "; stages that read summaries of chunks expect at least the first chunk of ", chunks[0]);
    require(query_stride >= 1, "query_stride is ", query_stride, "; expected at least 1");
    for_each_stage(stage, [&](auto i) { check_stage<i()>(s); });
    rope.check(s.key_dim, s.keys, most_numbered(s));
  }

  int lists(attention_shape const& s) const {
    return scope == mask_scope::layer ? 1 : scope == mask_scope::kv_head ? s.kv_heads : s.query_heads;
  }
  int tile_rows() const { return stage.template get<stages - 1>().query_block; }

  /// No two kept spans touch; one more span joins them to the window.
  index_capacity capacity(attention_shape const& s) const {
    index_t const there = ceil_div<index_t>(ceil_div<index_t>(s.keys, granularity), 2);
    return {.spans = static_cast<int>(1 + min<index_t>(stage.template get<stages - 1>().keep_chunks(), there))};
  }

  /// Most keys of a list whose stages ran when the sequence was up to `grown` tokens shorter.
  index_t list_keys(attention_shape const& s, index_t grown = 0) const {
    index_t const behind = max(scan_window_tokens() - window, 0) + index_t{query_stride} * first().query_block + grown;
    return min<index_t>(s.keys, index_t{sinks} + stage.template get<stages - 1>().keep + behind + window + tile_rows());
  }

  scan_grid grid(attention_shape const& s, bool causal) const {
    return {sinks, scan_window_tokens(), first().query_block, query_stride, lists(s), causal};
  }

  /// Bytes of what the stages keep, which later runs may start from.
  std::size_t kept_bytes(attention_shape const& s) const {
    detail::carver count{nullptr};
    lay_out(count, s);
    return count.bytes();
  }

  /// What each stage kept, inside such memory.
  std::array<kept_chunks, sizeof...(Stages)> kept(std::byte* memory, attention_shape const& s) const {
    detail::carver block{memory};
    return lay_out(block, s);
  }

  /// Bytes that a run needs besides, and forgets.
  std::size_t scratch_bytes(attention_shape const& s) const {
    detail::carver count{nullptr};
    scratch::carve(count, *this, s);
    return count.bytes();
  }

  /// Runs the stages whose turn has come, from stage `first_stage` on; those that do not run have left their results in memory.kept.
  template <class Exec, class Inputs>
  status scan(Exec const& exec, Inputs const& in, bool causal, scan_memory const& memory, refresh_gate const& gate = {},
              int first_stage = 0) const {
    detail::carver block{memory.scratch};
    auto const results = kept(memory.kept, memory.capacity);
    scratch const m = scratch::carve(block, *this, memory.capacity);
    status s;
    for_each_stage(stage, [&](auto i) {
      if (s && i() >= first_stage) static_cast<void>(s = run_stage<i()>(exec, in, causal, results, m, gate));
    });
    return s;
  }

  /// Fills every list of the index from what the last stage kept.
  template <class Exec>
  status write(Exec const& exec, attention_shape const& s, sequence_lengths const& lengths, scan_memory const& memory,
               sparse_index const& index) const {
    auto const results = kept(memory.kept, memory.capacity);
    return launch_in_order(exec, pruned_lists{s, lengths, index, grid(s, index.causal), window, results[stages - 1]});
  }

  friend bool operator==(pruned const&, pruned const&) = default;

 private:
  template <int I>
  using stage_type = std::remove_cvref_t<decltype(std::declval<stage_list<Stages...>>().template get<I>())>;

  auto const& first() const { return stage.template get<0>(); }
  std::int32_t scan_window_tokens() const { return scan_window ? scan_window : window; }

  template <int I>
  void check_stage(attention_shape const& s) const {
    auto const& now = stage.template get<I>();
    now.check();
    if constexpr (I > 0) {
      auto const& before = stage.template get<I - 1>();
      require(chunks[I - 1] % chunks[I] == 0, "stage ", I, " has chunks of ", chunks[I], ", stage ", I - 1, " of ", chunks[I - 1],
              "; expected a divisor");
      require(now.keep <= before.keep, "stage ", I, " keeps ", now.keep, " tokens, stage ", I - 1, " keeps ", before.keep,
              "; a budget cannot grow");
      require(before.query_block % now.query_block == 0, "stage ", I, " has query blocks of ", now.query_block, ", stage ", I - 1, " of ",
              before.query_block, "; expected a divisor");
    }
    using rule = typename stage_type<I>::rule_type;
    if constexpr (KeySummary<rule>)
      require(rope.turns_keys() ? rule::linear && rope.one_position_a_chunk() : true, "stage ", I,
              " reads summaries of keys, which the scan's position style would have to turn");
    if constexpr (ScoreRule<rule>) check_scores(I, now.rule.scores, s, now.query_block, chunks[I]);
    if constexpr (std::same_as<rule, landmark>)
      require(now.rule.offsets && now.rule.offsets.extent[0] >= s.batch && now.rule.offsets.extent[1] == s.kv_heads &&
                  now.rule.offsets.extent[2] >= grid_chunks(s, chunks[I]),
              "stage ", I, " has landmarks of ", now.rule.offsets.extent[2], " chunks; expected ", grid_chunks(s, chunks[I]), " of ",
              s.kv_heads, " KV heads");
  }

  void check_scores(int i, tensor_view<float const, 4> const& v, attention_shape const& s, index_t query_block, int chunk) const {
    index_t const blocks = ceil_div<index_t>(s.queries, query_block), there = grid_chunks(s, chunk);
    require(v && v.extent[0] >= s.batch && v.extent[1] == lists(s) && v.extent[2] >= blocks && v.extent[3] >= there, "stage ", i,
            " has scores of [", v.extent[0], ", ", v.extent[1], ", ", v.extent[2], ", ", v.extent[3], "]; expected [", s.batch, ", ",
            lists(s), ", ", blocks, ", ", there, "]");
  }

  index_t grid_chunks(attention_shape const& s, int chunk) const { return ceil_div<index_t>(max<index_t>(s.keys - sinks, 0), chunk); }

  /// Most candidates of stage I: all chunks, or the parts of those that the stage before keeps.
  template <int I>
  index_t candidates(attention_shape const& s) const {
    if constexpr (I == 0)
      return grid_chunks(s, chunks[0]);
    else
      return min(stage.template get<I - 1>().keep_chunks(), candidates<I - 1>(s)) * (chunks[I - 1] / chunks[I]);
  }

  index_t most_numbered(attention_shape const& s) const {
    index_t most = 0;
    for_each_stage(
        stage, [&](auto i) { most = max(most, rope.numbers == chunk_numbers::grid ? grid_chunks(s, chunks[i()]) : candidates<i()>(s)); });
    return most;
  }

  std::array<kept_chunks, sizeof...(Stages)> lay_out(detail::carver& block, attention_shape const& s) const {
    std::array<kept_chunks, sizeof...(Stages)> all;
    for_each_stage(stage, [&](auto i) {
      auto const& now = stage.template get<i()>();
      kept_chunks& k = all[i()];
      k.chunk = chunks[i()], k.query_block = now.query_block, k.lists = lists(s);
      k.blocks = ceil_div<index_t>(s.queries, now.query_block), k.most = min(now.keep_chunks(), candidates<i()>(s));
      index_t const rows = s.batch * k.lists * k.blocks;
      k.chunks = block.take<std::int32_t>(rows * k.most);
      k.count = block.take<std::int32_t>(rows), k.end = block.take<std::int32_t>(rows);
    });
    return all;
  }

  struct scratch {
    float *queries = nullptr, *scores = nullptr, *summaries = nullptr;
    std::int32_t* chosen = nullptr;
    index_t workers = 1, most = 0;
    index_t summary_chunks[sizeof...(Stages)] = {};

    /// Stages run one after the other in the same memory.
    static scratch carve(detail::carver& block, pruned const& p, attention_shape const& s) {
      scratch m;
      index_t query_floats = 0, summary_floats = 0, tasks = 1;
      for_each_stage(p.stage, [&](auto i) {
        using rule = typename stage_type<i()>::rule_type;
        auto const& now = p.stage.template get<i()>();
        m.most = max(m.most, p.template candidates<i()>(s));
        tasks = max(tasks, s.batch * p.lists(s) * ceil_div<index_t>(s.queries, now.query_block));
        query_floats = max(query_floats, scan_queries<rule>::floats(s.key_dim, now.query_block));
        m.summary_chunks[i()] = p.grid_chunks(s, chunks[i()]);
        if constexpr (KeySummary<rule>)
          summary_floats = max(summary_floats, s.batch * s.kv_heads * m.summary_chunks[i()] * rule::planes * s.key_dim);
      });
      m.workers = min<index_t>(tasks, 512);  // enough to fill a GPU
      m.queries = block.take<float>(m.workers * query_floats), m.summaries = block.take<float>(summary_floats);
      m.scores = block.take<float>(m.workers * m.most), m.chosen = block.take<std::int32_t>(m.workers * m.most);
      return m;
    }
  };

  template <class Exec, class Body>
  static status summarize(Exec const& exec, Body const& body) {
    if constexpr (std::same_as<Exec, host_executor>)
      return summarize_on_host(exec, body);
    else
      return launch_in_order(exec, body);
  }

  template <int I, class Exec, class Inputs>
  status run_stage(Exec const& exec, Inputs const& in, bool causal, std::array<kept_chunks, sizeof...(Stages)> const& kept,
                   scratch const& m, refresh_gate const& gate) const {
    using stage_t = stage_type<I>;
    stage_args<Inputs, stage_t> args{in, grid(in.shape, causal), rope, stage.template get<I>(), {}, kept[I], gate, I, {}};
    if constexpr (I > 0) args.from = kept[I - 1];
    scan_stage<Inputs, stage_t> body{args, m.queries, m.scores, m.chosen, m.most, m.workers};
    if constexpr (KeySummary<typename stage_t::rule_type>) {
      int const floats = stage_t::rule_type::planes * in.shape.key_dim;
      body.args.summaries = {m.summaries, m.summary_chunks[I], in.shape.kv_heads, floats};
      if (status s = summarize(exec, summarize_chunks<Inputs, stage_t>{in, sinks, gate, I, body.args.summaries}); !s) return s;
    }
    if constexpr (std::same_as<Exec, host_executor>)
      return scan_on_host(exec, body);
    else
      return launch_in_order(exec, body);
  }
};

/// All lists are built together: they share scans where heads share lists.
template <class... Stages>
struct pattern_traits<pruned<Stages...>> {
  using pattern = pruned<Stages...>;
  static constexpr int granularity = pattern::granularity;
  static int lists(pattern const& p, attention_shape const& s) { return p.lists(s); }
  static int tile_rows(pattern const& p) { return p.tile_rows(); }
  static index_capacity capacity(pattern const& p, attention_shape const& s) {
    auto most = p.capacity(s);
    most.shared_spans = 1;
    return most;
  }
  static std::size_t workspace_bytes(pattern const& p, attention_shape const& s) { return p.kept_bytes(s) + p.scratch_bytes(s); }

  template <class Exec, class Inputs>
  static status build_all(pattern const& p, Exec const& exec, Inputs const& in, std::byte* workspace, sparse_index const& index) {
    scan_memory const memory{workspace, workspace + p.kept_bytes(in.shape), in.shape};
    if (status s = p.scan(exec, in, index.causal, memory); !s) return s;
    return p.write(exec, in.shape, in.lengths, memory, index);
  }
};

static_assert(SparsePattern<pruned<chunk_scan<256>, chunk_scan<32>, chunk_scan<8>>>);

}  // namespace lacuna
