#pragma once
#include <lacuna/attention/attend_backend.hpp>
#include <lacuna/attention/attention_plan.hpp>
#include <lacuna/attention/check_lengths.hpp>
#include <lacuna/core/check_view.hpp>
#include <lacuna/exec/host_executor.hpp>
#include <lacuna/exec/workspace.hpp>
#include <lacuna/kernels/clear_rows.hpp>
#include <lacuna/pattern/dense.hpp>
#include <lacuna/storage/contiguous.hpp>

#include <cmath>

namespace lacuna {

/// Base of a configuration: element type and head dims, dense until the configuration names a pattern.
template <AttentionElement T, int KeyDim, int ValueDim = KeyDim>
struct attention_defaults {
  using element = T;
  static constexpr int key_dim = KeyDim;      // a multiple of 8 up to 256
  static constexpr int value_dim = ValueDim;  // likewise
  using pattern = dense;
  using mask = by_rule;     // inside kept spans, beside causality
  using rope = given_rope;  // or attend_rope: queries and keys turn as they are read
};

template <class C>
concept AttentionConfig =
    AttentionElement<typename C::element> && ElementMask<typename C::mask> && AttendRope<typename C::rope> && requires {
  typename C::pattern;
  { C::key_dim } -> std::convertible_to<int>;
  { C::value_dim } -> std::convertible_to<int>;
};

/// Amounts that belong to the model.
struct attention_options {
  float scale = 0;        // multiplies q . k; 0 stands for 1 / sqrt(key_dim)
  float soft_cap = 0;     // logits become soft_cap * tanh(logit / soft_cap); 0: none
  bool causal = true;     // query i of n sees keys up to position keys - n + i
  attend_rope rope = {};  // position style, for configurations that name attend_rope
};

/// What a call reads and writes besides keys and values. Tensors are [batch, token, head, dim] with any strides but an innermost 1.
/// With query_offsets (packed batches) q, out and lse have batch extent 1.
template <class T>
struct attention_io {
  tensor_view<T const, 4> q;           // [batch, queries, query heads, key_dim]
  tensor_view<T, 4> out;               // [batch, queries, query heads, value_dim]; must not overlap q, k or v
  tensor_view<float, 3> lse = {};      // [batch, queries, query heads] natural log-sum-exp; optional
  sequence_lengths lengths = {};       // read when the run executes; see sequence_lengths
  float const* sink_logits = nullptr;  // [query heads] extra term exp(sink) in each row's sum; optional
  query_tree tree = {};                // which of the newest 64 keys each query sees, for speculative decoding; optional
};

/// Attention over the keys that a pattern keeps: plan once from capacities, then run. A run neither allocates nor waits. Runs return a
/// status; a refused run has written nothing. Rows without a visible key give output 0 and LSE -inf.
///
///   lacuna::sparse_attention<config> attention{{.sinks = 64, .window = 1024}};
///   auto const plan = attention.plan_prefill(exec, {.batch = 1, .queries = n, .keys = n, .query_heads = 32, .kv_heads = 8});
///   lacuna::workspace scratch{exec, plan.workspace_bytes()};
///   lacuna::status s = attention.prefill(exec, plan, scratch, {q, out}, {k, v});
template <class Config>
class sparse_attention {
  static_assert(AttentionConfig<Config>, "derive the configuration from lacuna::attention_defaults<element, key_dim>");
  static_assert(Config::key_dim % 8 == 0 && Config::key_dim >= 8 && Config::key_dim <= 256,
                "key_dim must be a multiple of 8 up to 256 (MLA's 576 and 512 have no kernel)");
  static_assert(Config::value_dim % 8 == 0 && Config::value_dim >= 8 && Config::value_dim <= 256,
                "value_dim must be a multiple of 8 up to 256");

 public:
  using element = typename Config::element;
  using pattern_type = typename Config::pattern;
  using io_type = attention_io<element>;
  using contiguous = contiguous_kv<element>;

  /// Throws invalid_argument if an amount is out of range.
  explicit sparse_attention(pattern_type pattern = {}, attention_options options = {}) : pattern_{std::move(pattern)}, options_{options} {
    require(options.scale >= 0 && std::isfinite(options.scale), "scale is ", options.scale, "; expected a finite number of at least 0");
    require(options.soft_cap >= 0 && std::isfinite(options.soft_cap), "soft_cap is ", options.soft_cap,
            "; expected a finite number of at least 0");
    require(turns_on_read || !options.rope.turns(), "the options have a position style; the configuration has no rope = attend_rope");
    if (options_.scale == 0) options_.scale = 1 / std::sqrt(static_cast<float>(Config::key_dim));
  }

  pattern_type const& pattern() const { return pattern_; }
  attention_options const& options() const { return options_; }

  /// Plan for many queries: rows are not split. Dims of the shape may be left 0. Kv is the reader of keys and values that runs will bring:
  /// plan_prefill<paged_kv<bfloat16>>(exec, shape). Throws invalid_argument.
  template <class Kv = contiguous, class Exec>
  requires Executor<Exec> attention_plan plan_prefill(Exec const& exec, attention_shape shape)
  const { return make_plan<Kv>(exec, shape, attend_phase::prefill); }

  /// Plan for few queries over many keys: each row's keys are split by its own list length and joined in ascending order.
  template <class Kv = contiguous, class Exec>
  requires Executor<Exec> attention_plan plan_decode(Exec const& exec, attention_shape shape)
  const { return make_plan<Kv>(exec, shape, attend_phase::decode); }

  /// Chooses keys, then attends over them. [MInference, section 3; any pattern]
  template <class Exec, class Kv = contiguous>
  status prefill(Exec const& exec, attention_plan const& plan, workspace<Exec> const& scratch, io_type const& io, Kv const& kv) const {
    if (status s = build(exec, plan, scratch, io, kv); !s) return s;
    return attend(exec, plan, scratch, io, kv);
  }

  /// The same for a decode plan.
  template <class Exec, class Kv = contiguous>
  status decode(Exec const& exec, attention_plan const& plan, workspace<Exec> const& scratch, io_type const& io, Kv const& kv) const {
    return prefill(exec, plan, scratch, io, kv);
  }

  /// One decode step of a layer whose lists outlive steps: see index_cache. The cache was made for the plan's shape and has this
  /// attention's pattern in that layer.
  template <class Exec, class Kv, class Cache>
  status decode(Exec const& exec, attention_plan const& plan, workspace<Exec> const& scratch, io_type const& io, Kv const& kv,
                Cache const& cache, int layer) const {
    if (status s = build(exec, plan, scratch, io, kv, cache, layer); !s) return s;
    return attend(exec, plan, scratch, io, kv);
  }

  template <class Exec, class Kv, class Cache>
  status build(Exec const& exec, attention_plan const& plan, workspace<Exec> const& scratch, io_type const& io, Kv const& kv,
               Cache const& cache, int layer) const {
    if (status s = check_run(exec, plan, scratch, io, kv); !s) return s;
    if (status s = check_cache(plan, cache, layer); !s) return s;
    auto const inputs = make_inputs(plan, io, kv);
    if (inputs.shape.batch == 0 || inputs.shape.queries == 0) return {};
    std::byte* const memory = plan.pattern_workspace(scratch.data()) + pattern_.kept_bytes(plan.shape());
    return cache.build(inputs, layer, memory, plan.index(scratch.data()));
  }

  /// Only chooses keys: fills plan.index(scratch.data()).
  template <class Exec, class Kv = contiguous>
  status build(Exec const& exec, attention_plan const& plan, workspace<Exec> const& scratch, io_type const& io, Kv const& kv) const {
    if (status s = check_run(exec, plan, scratch, io, kv); !s) return s;
    auto const inputs = make_inputs(plan, io, kv);
    if (inputs.shape.batch == 0 || inputs.shape.queries == 0) return {};
    return build_all(pattern_, exec, inputs, plan.pattern_workspace(scratch.data()), plan.index(scratch.data()));
  }

  /// Looks at how much softmax mass the index that the workspace holds captures: see recall_meter.
  template <class Exec, class Meter, class Kv = contiguous>
  status measure(Exec const& exec, attention_plan const& plan, workspace<Exec> const& scratch, io_type const& io, Kv const& kv,
                 Meter const& meter) const {
    static_assert(std::same_as<typename Config::mask, by_rule>, "captured mass knows the masks of the library's patterns only");
    if (status s = check_run(exec, plan, scratch, io, kv); !s) return s;
    if (options_.rope.turns()) return refuse("measure takes queries and keys as they lie; with a position style, give recall() turned ones");
    if (io.tree) return refuse("measure takes no tree of queries");
    return meter.add(make_inputs(plan, io, kv), plan.index(scratch.data()));
  }

  /// Only attends, over the index that the workspace holds from the last build with this plan, or that the caller filled.
  template <class Exec, class Kv = contiguous>
  status attend(Exec const& exec, attention_plan const& plan, workspace<Exec> const& scratch, io_type const& io, Kv const& kv) const {
    if (status s = check_run(exec, plan, scratch, io, kv); !s) return s;
    auto const args = make_args(plan, scratch.data(), io, kv);
    if (args.shape.batch == 0 || args.shape.queries == 0) return {};
    if (io.lengths.query_lengths && !io.lengths.query_offsets) {
      clear_rows const body{args};
      if (status s = exec.launch({body.blocks(), 128}, body); !s) return s;
    }
    return attend_backend<Exec>::template attend<Config>(exec, plan, args, plan.parts(scratch.data()), plan.body_workspace(scratch.data()));
  }

 private:
  using traits = pattern_traits<pattern_type>;

  static constexpr bool turns_on_read = !std::same_as<typename Config::rope, given_rope>;

  logit_transform logits() const { return {options_.scale, options_.soft_cap}; }

  typename Config::rope rope() const {
    if constexpr (turns_on_read)
      return options_.rope;
    else
      return {};
  }

  /// Ranks and windows of a style mean lists without columns, and tables are as long as what lists can hold.
  void check_rope(attention_shape const& shape, index_layout const& layout) const {
    if (!options_.rope.turns()) return;
    require(layout.capacity.columns == 0, "lists have columns; a position style expects spans only");
    index_t listed = shape.keys;
    if constexpr (requires { pattern_.list_keys(shape); }) listed = pattern_.list_keys(shape);
    options_.rope.check(shape.key_dim, shape.keys, listed, layout.tile_rows);
  }

  template <class Kv, class Exec>
  attention_plan make_plan(Exec const& exec, attention_shape shape, attend_phase phase) const {
    static_assert(KvReader<Kv> && std::same_as<typename Kv::element, element>,
                  "Kv must read keys and values of the configuration's element");
    static_assert(
        requires { sizeof(attend_backend<Exec>); }, "no bodies for this executor: cuda_executor's come with lacuna/cuda.cuh");
    require(shape.key_dim == 0 || shape.key_dim == Config::key_dim, "key_dim is ", shape.key_dim, "; this configuration has ",
            Config::key_dim);
    require(shape.value_dim == 0 || shape.value_dim == Config::value_dim, "value_dim is ", shape.value_dim, "; this configuration has ",
            Config::value_dim);
    shape.key_dim = Config::key_dim, shape.value_dim = Config::value_dim;
    check(shape);
    pattern_.check(shape);
    attention_plan p;
    p.shape_ = shape, p.target_ = exec.target();
    p.layout_ = layout_of(exec, shape);
    p.element_ = element_name<element>;
    check_rope(shape, p.layout_);
    index_t const most_parts = phase == attend_phase::prefill ? 1 : ceil_div(shape.keys, attention_plan::split_keys);
    p.splits_ = static_cast<int>(max<index_t>(1, most_parts));
    p.body_ = attend_backend<Exec>::template choose<Config, Kv>(exec, body_request{shape, p.layout_, phase, p.splits_});
    if (p.body_.joins_parts) p.splits_ = 1;
    double const part_bytes =
        p.splits_ > 1 ? static_cast<double>(shape.batch * shape.query_heads * shape.queries) * p.splits_ * 4 * (shape.value_dim + 1) : 0;
    require(estimated_index_bytes(p.layout_) + part_bytes < most_workspace_bytes, "the plan would need about ",
            estimated_index_bytes(p.layout_) + part_bytes, " bytes of workspace; expected fewer tokens, heads or kept keys");
    p.pattern_at_ = index_bytes(p.layout_);
    p.body_at_ = p.pattern_at_ + pattern_room(shape);
    p.parts_at_ = p.body_at_ + round_up<std::size_t>(p.body_.workspace_bytes, 256);
    index_t const rows = shape.batch * shape.query_heads * shape.queries * p.splits_;
    p.bytes_ = p.parts_at_ + (p.splits_ > 1 ? static_cast<std::size_t>(rows) * (shape.value_dim + 1) * sizeof(float) : 0);
    return p;
  }

  static constexpr double most_workspace_bytes = 0x1p50;

  template <class Exec>
  index_layout layout_of(Exec const& exec, attention_shape const& shape) const {
    return {static_cast<int>(shape.batch),
            traits::lists(pattern_, shape),
            shape.queries,
            tile_rows(exec, shape),
            traits::granularity,
            options_.causal,
            traits::capacity(pattern_, shape)};
  }

  /// Refuses a plan of another configuration or of other amounts: it has other room for what this one chooses.
  template <class Exec>
  status check_plan(Exec const& exec, attention_plan const& plan) const {
    attention_shape const& s = plan.shape();
    if (plan.target() != exec.target()) return refuse("the plan was made for another kind of executor; plan with the one that runs");
    if (s.key_dim != Config::key_dim || s.value_dim != Config::value_dim || plan.element_ != element_name<element>)
      return refuse("the plan was made for ", plan.element_, " with head dims ", s.key_dim, " and ", s.value_dim, "; this attention has ",
                    element_name<element>, " with ", Config::key_dim, " and ", Config::value_dim);
    index_layout const &has = plan.layout(), needs = layout_of(exec, s);
    if (has.heads != needs.heads || has.tile_rows != needs.tile_rows || has.granularity != needs.granularity ||
        has.causal != needs.causal || !(has.capacity == needs.capacity) || plan.body_at_ - plan.pattern_at_ != pattern_room(s))
      return refuse("the plan was made for another pattern or other amounts; plan with the attention that runs");
    return {};
  }

  std::size_t pattern_room(attention_shape const& shape) const {
    return round_up<std::size_t>(traits::workspace_bytes(pattern_, shape), 256);
  }

  /// Static patterns are exact at any tile size: the executor's bodies choose.
  template <class Exec>
  int tile_rows(Exec const& exec, attention_shape const& shape) const {
    if constexpr (StaticPattern<pattern_type>)
      return attend_backend<Exec>::static_tile_rows(exec, shape);
    else
      return traits::tile_rows(pattern_);
  }

  /// Sizes of this call: what the tensors hold, within the plan's capacities. Packed sequences may each have the full capacity.
  template <class Kv>
  static attention_shape run_shape(attention_plan const& plan, io_type const& io, Kv const& kv) {
    attention_shape s = plan.shape();
    if (!io.lengths.query_offsets) s.queries = io.q.extent[1];
    if constexpr (requires { kv.tokens(); })
      if (!io.lengths.key_offsets) s.keys = kv.tokens();
    return s;
  }

  template <class T, int Rank>
  static tensor_view<T, Rank> without_batch(tensor_view<T, Rank> v, bool packed) {
    if (packed) v.stride[0] = 0;
    return v;
  }

  template <class Kv>
  build_inputs<element, Kv> make_inputs(attention_plan const& plan, io_type const& io, Kv const& kv) const {
    return {run_shape(plan, io, kv), io.lengths, without_batch(io.q, io.lengths.query_offsets), kv, logits()};
  }

  template <class Cache>
  status check_cache(attention_plan const& plan, Cache const& cache, int layer) const {
    attention_shape const &s = plan.shape(), &c = cache.shape();
    if (layer < 0 || layer >= cache.layers()) return refuse("layer is ", layer, "; the cache has ", cache.layers());
    if (c.batch != s.batch || c.queries != s.queries || c.keys != s.keys || c.query_heads != s.query_heads || c.kv_heads != s.kv_heads ||
        c.key_dim != s.key_dim)
      return refuse("the cache is for ", c.batch, " sequences of ", c.queries, " queries and ", c.keys, " keys with ", c.query_heads,
                    " and ", c.kv_heads, " heads of ", c.key_dim, "; the plan for ", s.batch, ", ", s.queries, ", ", s.keys, ", ",
                    s.query_heads, " and ", s.kv_heads, " of ", s.key_dim);
    if constexpr (std::equality_comparable<pattern_type>)
      if (!(cache.pattern(layer) == pattern_))
        return refuse("layer ", layer, " of the cache has a pattern of other amounts than this attention");
    index_t const listed = pattern_.list_keys(s, cache.most_behind());
    index_t const needed = options_.rope.positions_needed(s.keys, listed, plan.layout().tile_rows);
    if (options_.rope.turns() && options_.rope.table.positions < needed)
      return refuse("attend rope has a table of ", options_.rope.table.positions, " positions; lists that outlive steps reach ", needed);
    return {};
  }

  template <class Kv>
  auto make_args(attention_plan const& plan, std::byte* scratch, io_type const& io, Kv const& kv) const {
    bool const packed = io.lengths.query_offsets;
    return attend_args<element, Kv, typename Config::mask, typename Config::rope>{run_shape(plan, io, kv),
                                                                                  io.lengths,
                                                                                  plan.index(scratch),
                                                                                  without_batch(io.q, packed),
                                                                                  kv,
                                                                                  without_batch(io.out, packed),
                                                                                  without_batch(io.lse, packed),
                                                                                  logits(),
                                                                                  io.sink_logits,
                                                                                  {},
                                                                                  rope(),
                                                                                  {without_batch(io.tree.rows, packed)}};
  }

  /// Everything that can be refused without reading device memory.
  template <class Exec, class Kv>
  status check_run(Exec const& exec, attention_plan const& plan, workspace<Exec> const& scratch, io_type const& io, Kv const& kv) const {
    attention_shape const& s = plan.shape();
    if (status r = check_plan(exec, plan); !r) return r;
    if (scratch.bytes() < plan.workspace_bytes())
      return refuse("workspace has ", scratch.bytes(), " bytes; the plan needs ", plan.workspace_bytes());
    bool const packed = io.lengths.query_offsets;
    index_t const batch = packed ? 1 : s.batch, tokens = packed ? -1 : s.queries;
    if (status r = detail::check_rows("q", io.q, batch, tokens, s.query_heads, s.key_dim); !r) return r;
    if (status r = detail::check_rows("out", io.out, batch, tokens, s.query_heads, s.value_dim); !r) return r;
    if (io.out.extent[1] != io.q.extent[1]) return refuse("out has ", io.out.extent[1], " tokens; q has ", io.q.extent[1]);
    if (io.lse && (io.lse.extent[0] != batch || io.lse.extent[1] != io.q.extent[1] || io.lse.extent[2] != s.query_heads))
      return refuse("lse is ", detail::extents_of(io.lse), "; expected [", batch, ", ", io.q.extent[1], ", ", s.query_heads, "]");
    if (io.tree && (io.tree.rows.extent[0] != batch || io.tree.rows.extent[1] != io.q.extent[1]))
      return refuse("tree is ", detail::extents_of(io.tree.rows), "; expected [", batch, ", ", io.q.extent[1], "]");
    if (status r = check_written(io, scratch); !r) return r;
    if constexpr (requires { kv.check(s, io.lengths, io.out); })
      if (status r = kv.check(s, io.lengths, io.out); !r) return r;
    if constexpr (requires { detail::overlap(io.lse, kv.keys), detail::overlap(io.lse, kv.values); })
      if (io.lse && (detail::overlap(io.lse, kv.keys) || detail::overlap(io.lse, kv.values)))
        return refuse("lse overlaps k or v; expected memory of its own");
    if constexpr (std::same_as<Exec, host_executor>) return check_host_memory(s, io, kv);
    return {};
  }

  /// Refuses results that would overwrite each other, what is read, or the workspace.
  template <class Exec>
  static status check_written(io_type const& io, workspace<Exec> const& scratch) {
    if (status r = detail::check_written("out", io.out); !r) return r;
    if (detail::overlap(io.out, io.q)) return refuse("out overlaps q; expected memory of its own");
    tensor_view<std::byte, 1> const memory{scratch.data(), static_cast<index_t>(scratch.bytes())};
    if (detail::overlap(io.out, memory)) return refuse("out overlaps the workspace; expected memory of its own");
    if (!io.lse) return {};
    if (status r = detail::check_span("lse", io.lse); !r) return r;
    if (status r = detail::check_written("lse", io.lse); !r) return r;
    if (detail::overlap(io.lse, io.out)) return refuse("lse overlaps out; expected memory of its own");
    if (detail::overlap(io.lse, io.q)) return refuse("lse overlaps q; expected memory of its own");
    if (detail::overlap(io.lse, memory)) return refuse("lse overlaps the workspace; expected memory of its own");
    return {};
  }

  /// Offsets and tables, which only a host executor's caller has in host memory.
  template <class Kv>
  static status check_host_memory(attention_shape const& s, io_type const& io, Kv const& kv) {
    auto const& l = io.lengths;
    if constexpr (requires { kv.check_contents(s, l); })
      if (status r = kv.check_contents(s, l); !r) return r;
    if (status r = detail::check_offsets("query_offsets", l.query_offsets, s.batch, s.queries, io.q.extent[1]); !r) return r;
    if constexpr (requires { kv.tokens(); }) return detail::check_offsets("key_offsets", l.key_offsets, s.batch, s.keys, kv.tokens());
    return {};
  }

  pattern_type pattern_;
  attention_options options_;
};

}  // namespace lacuna
