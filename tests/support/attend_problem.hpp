#pragma once
#include "support/place.hpp"

#include <lacuna/kernels/attend_row.hpp>
#include <lacuna/storage/contiguous.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace test {

using lacuna::index_t;

enum class lists {
  dense,    // one own span that stands alone
  window,   // sinks and a window, per head, with the rule that makes it exact
  mixed,    // prefix, own spans, a shared span and columns; some rows alone, some empty
  members,  // own spans that only some tokens of a tile read
  ruled,    // all keys in one own span, of which the rule hides most
};

/// One attention call in numbers.
struct attend_recipe {
  lacuna::attention_shape shape;
  test::lists lists = lists::dense;
  bool causal = true;
  int tile_rows = 64;
  int list_heads = 0;  // heads of the index; 0: query heads
  float soft_cap = 0;
  bool sink_logits = false;
  bool tree = false;  // random rows over the newest 64 keys
  int spans = 0, columns = 0;  // most in a row of mixed lists; 0: some
  int splits = 1;
  index_t split_keys = 0;
  std::vector<std::int32_t> query_offsets = {}, key_offsets = {}, query_lengths = {}, key_lengths = {};
  unsigned seed = 1;

  bool packed() const { return !query_offsets.empty(); }
  index_t query_tokens() const { return packed() ? query_offsets.back() : shape.queries; }
  index_t key_tokens() const { return key_offsets.empty() ? shape.keys : key_offsets.back(); }
  lacuna::sequence_lengths lengths() const {
    auto const or_null = [](auto const& v) { return v.empty() ? nullptr : v.data(); };
    return {or_null(query_offsets), or_null(key_offsets), or_null(query_lengths), or_null(key_lengths)};
  }
};

/// Normal deviates, the same on every standard library.
inline float normal(std::mt19937& engine) {
  double const u = (engine() + 1.0) / 4294967297.0, v = engine() / 4294967296.0;
  return static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v));
}

template <class T>
std::vector<T> normals(std::size_t count, unsigned seed) {
  std::mt19937 engine{seed};
  std::vector<T> values(count);
  for (auto& x : values) x = lacuna::from_float<T>(normal(engine));
  return values;
}

/// Results of a call, in the order [batch or 1, token, head, dim].
struct attend_result {
  std::vector<float> out, lse;
  friend bool operator==(attend_result const& a, attend_result const& b) {  // bit for bit: NaN marks rows that nobody may write
    auto const same = [](std::vector<float> const& x, std::vector<float> const& y) {
      return std::ranges::equal(
          x, y, {}, [](float f) { return lacuna::bit_cast<std::uint32_t>(f); }, [](float f) { return lacuna::bit_cast<std::uint32_t>(f); });
    };
    return same(a.out, b.out) && same(a.lse, b.lse);
  }
};

/// Inputs and index of a recipe in host memory. Keys and values that no query reads are NaN.
template <class T>
class attend_problem {
 public:
  using args_type = lacuna::attend_args<T, lacuna::contiguous_kv<T>>;

  explicit attend_problem(attend_recipe const& recipe) : recipe_{recipe}, engine_{recipe.seed} {
    auto const& s = recipe_.shape;
    index_t const batch = recipe_.packed() ? 1 : s.batch, key_batch = recipe_.key_offsets.empty() ? s.batch : 1;
    q_ = normals<T>(batch * recipe_.query_tokens() * s.query_heads * s.key_dim, recipe.seed + 1);
    k_ = normals<T>(key_batch * recipe_.key_tokens() * s.kv_heads * s.key_dim, recipe.seed + 2);
    v_ = normals<T>(key_batch * recipe_.key_tokens() * s.kv_heads * s.value_dim, recipe.seed + 3);
    if (recipe.sink_logits) sinks_ = normals<float>(s.query_heads, recipe.seed + 4);
    for (index_t i = 0; recipe.tree && i < batch * recipe_.query_tokens(); ++i) tree_.push_back(std::uint64_t{engine_()} << 32 | engine_());
    logits_ = {1 / std::sqrt(static_cast<float>(s.key_dim)), recipe.soft_cap};
    choose_lists();
    hide_unread();
  }

  attend_recipe const& recipe() const { return recipe_; }
  lacuna::index_layout const& layout() const { return layout_; }
  std::vector<T>& q() { return q_; }
  std::vector<T>& k() { return k_; }
  std::vector<T>& v() { return v_; }

  /// Runs the portable bodies. Rows that are not written keep NaN.
  template <class Exec>
  attend_result run(Exec const& exec) const {
    place<Exec> at{exec};
    auto const args = put(at);
    auto const parts = put_parts(at);
    launch(exec, args, parts).or_throw();
    return read(at, args);
  }

  template <class Exec>
  args_type put(place<Exec>& at) const {
    auto const& r = recipe_;
    auto const& s = r.shape;
    auto const view = [](auto* data, index_t batch, index_t tokens, int heads, int dim, bool packed) {
      lacuna::tensor_view<std::remove_pointer_t<decltype(data)>, 4> v(data, batch, tokens, heads, dim);
      if (packed) v.stride[0] = 0;
      return v;
    };
    index_t const key_batch = r.key_offsets.empty() ? s.batch : 1;
    std::size_t const rows = (r.packed() ? 1 : s.batch) * r.query_tokens() * s.query_heads;
    std::vector<T> const poison(rows * s.value_dim, lacuna::from_float<T>(std::numeric_limits<float>::quiet_NaN()));
    std::vector<float> const lse_poison(rows, std::numeric_limits<float>::quiet_NaN());
    args_type a;
    a.shape = s;
    a.lengths = {at.put(r.query_offsets), at.put(r.key_offsets), at.put(r.query_lengths), at.put(r.key_lengths)};
    a.index = lacuna::make_index(layout_, at.put(index_memory_));
    a.q = view(static_cast<T const*>(at.put(q_)), s.batch, r.query_tokens(), s.query_heads, s.key_dim, r.packed());
    a.kv.keys = view(static_cast<T const*>(at.put(k_)), key_batch, r.key_tokens(), s.kv_heads, s.key_dim, !r.key_offsets.empty());
    a.kv.values = view(static_cast<T const*>(at.put(v_)), key_batch, r.key_tokens(), s.kv_heads, s.value_dim, !r.key_offsets.empty());
    a.out = view(at.put(poison), s.batch, r.query_tokens(), s.query_heads, s.value_dim, r.packed());
    a.lse = lacuna::tensor_view<float, 3>(at.put(lse_poison), s.batch, r.query_tokens(), s.query_heads);
    if (r.packed()) a.lse.stride[0] = 0;
    a.logits = logits_;
    a.sink_logits = at.put(sinks_);
    if (r.tree) a.tree.rows = {static_cast<std::uint64_t const*>(at.put(tree_)), r.packed() ? 1 : s.batch, r.query_tokens()};
    if (r.packed()) a.tree.rows.stride[0] = 0;
    return a;
  }

  template <class Exec>
  lacuna::attend_parts put_parts(place<Exec>& at) const {
    if (recipe_.splits == 1) return {};
    std::size_t const rows = recipe_.shape.batch * recipe_.shape.query_heads * recipe_.shape.queries * recipe_.splits;
    std::vector<float> const poison(rows * (recipe_.shape.value_dim + 1), std::numeric_limits<float>::quiet_NaN());
    float* const memory = at.put(poison);
    return {recipe_.splits, recipe_.split_keys, memory, memory + rows * recipe_.shape.value_dim};
  }

  template <class Exec>
  static lacuna::status launch(Exec const& exec, args_type const& args, lacuna::attend_parts const& parts) {
    lacuna::attend_row<args_type> const body{args, parts};
    if (lacuna::status s = exec.launch({body.blocks(), 64}, body); !s || parts.splits == 1) return s;
    lacuna::merge_rows<args_type> const merge{args, parts};
    return exec.launch({merge.blocks(), 64}, merge);
  }

  template <class Exec>
  attend_result read(place<Exec>& at, args_type const& args) const {
    std::size_t const rows = (recipe_.packed() ? 1 : recipe_.shape.batch) * recipe_.query_tokens() * recipe_.shape.query_heads;
    std::vector<T> const out = at.get(args.out.data, rows * recipe_.shape.value_dim);
    attend_result result{std::vector<float>(out.size()), at.get(args.lse.data, rows)};
    std::ranges::transform(out, result.out.begin(), [](T x) { return lacuna::to_float(x); });
    return result;
  }

  /// Plain loops in double over the explicit key lists. Rows outside their sequence stay NaN.
  attend_result oracle() const {
    auto const& s = recipe_.shape;
    index_t const batch = recipe_.packed() ? 1 : s.batch;
    std::size_t const rows = batch * recipe_.query_tokens() * s.query_heads;
    attend_result r{std::vector<float>(rows * s.value_dim, std::numeric_limits<float>::quiet_NaN()),
                    std::vector<float>(rows, std::numeric_limits<float>::quiet_NaN())};
    each_row([&](lacuna::sequence const& at, index_t b, int h, index_t i) {
      index_t const row = ((recipe_.packed() ? 0 : b) * recipe_.query_tokens() + at.first_query + i) * s.query_heads + h;
      oracle_row(at, b, h, i, row, r);
    });
    return r;
  }

  /// Keys that query i of head h reads, from the definition of the index and nothing else.
  std::set<index_t> keys_of(lacuna::sequence const& s, index_t b, int h, index_t i) const {
    auto const x = lacuna::make_index(layout_, const_cast<std::byte*>(index_memory_.data()));
    int const list = lacuna::list_head(h, recipe_.shape.query_heads, x.heads);
    index_t const head = b * x.heads + list, tile = i / x.tile_rows, row = head * x.tiles + tile, token = i % x.tile_rows;
    index_t const first = s.keys - s.queries + tile * x.tile_rows;
    bool const alone = x.row_count[row] & lacuna::sparse_index::alone, partial = s.queries - tile * x.tile_rows < x.tile_rows;
    std::set<index_t> keys;
    auto const add = [&](index_t begin, index_t end) {
      for (index_t key = std::max<index_t>(begin, 0); key < std::min(end, s.keys); ++key) keys.insert(key);
    };
    if (!alone) add(0, x.prefix[head]);
    for (int e = 0; e < (x.row_count[row] & ~lacuna::sparse_index::alone); ++e) {
      index_t const entry = row * x.capacity.spans + e;
      if (!x.members || x.members[entry] >> token & 1) add(x.own[entry].begin, x.own[entry].end);
    }
    for (int e = 0; !alone && x.capacity.shared_spans && e < x.shared_count[head * 2 + partial]; ++e) {
      auto const relative = x.shared[(head * 2 + partial) * x.capacity.shared_spans + e];
      add(first + relative.begin, first + relative.end);
    }
    for (int c = 0; x.capacity.columns && c < x.column_count[head]; ++c)
      if (x.column_bits[row * x.column_words() + c / 32] >> c % 32 & 1) keys.insert(x.columns[head * x.capacity.columns + c]);
    index_t const position = s.keys - s.queries + i;
    auto const rule = x.rules[head];
    std::erase_if(keys, [&](index_t key) {
      index_t const query = (recipe_.packed() ? 0 : b * recipe_.query_tokens()) + s.first_query + i;
      std::uint64_t const newest = recipe_.tree ? tree_[query] : ~std::uint64_t{0};
      if (key >= s.keys - 64 && !(newest >> (key - s.keys + 64) & 1)) return true;
      bool const windowed = rule.window != lacuna::head_rule::unlimited && position < rule.dense_from;
      return (x.causal && key > position) || (windowed && key >= rule.sinks && position - key >= rule.window);
    });
    return keys;
  }

 private:
  template <class Visit>
  void each_row(Visit const& visit) const {
    for (index_t b = 0; b < recipe_.shape.batch; ++b) {
      auto const s = lacuna::sequence_at(recipe_.lengths(), recipe_.shape, b);
      for (int h = 0; h < recipe_.shape.query_heads; ++h)
        for (index_t i = 0; i < s.queries; ++i) visit(s, b, h, i);
    }
  }

  index_t key_row(lacuna::sequence const& s, index_t b, int h, index_t key) const {
    return ((recipe_.key_offsets.empty() ? b : 0) * recipe_.key_tokens() + s.first_key + key) * recipe_.shape.kv_heads +
           recipe_.shape.kv_head(h);
  }

  void oracle_row(lacuna::sequence const& at, index_t b, int h, index_t i, index_t row, attend_result& r) const {
    auto const& s = recipe_.shape;
    std::vector<double> logits, acc(s.value_dim);
    double peak = sinks_.empty() ? -std::numeric_limits<double>::infinity() : sinks_[h];
    auto const keys = keys_of(at, b, h, i);
    for (index_t const key : keys) {
      double dot = 0;
      index_t const k = key_row(at, b, h, key);
      for (int d = 0; d < s.key_dim; ++d)
        dot += double(lacuna::to_float(q_[row * s.key_dim + d])) * lacuna::to_float(k_[k * s.key_dim + d]);
      dot *= logits_.scale;
      logits.push_back(logits_.soft_cap > 0 ? logits_.soft_cap * std::tanh(dot / logits_.soft_cap) : dot);
      peak = std::max(peak, logits.back());
    }
    double sum = sinks_.empty() ? 0 : std::exp(sinks_[h] - peak);
    std::size_t j = 0;
    for (index_t const key : keys) {
      double const weight = std::exp(logits[j++] - peak);
      sum += weight;
      for (int d = 0; d < s.value_dim; ++d) acc[d] += weight * lacuna::to_float(v_[key_row(at, b, h, key) * s.value_dim + d]);
    }
    for (int d = 0; d < s.value_dim; ++d) r.out[row * s.value_dim + d] = sum > 0 ? static_cast<float>(acc[d] / sum) : 0;
    r.lse[row] = sum > 0 ? static_cast<float>(peak + std::log(sum)) : -std::numeric_limits<float>::infinity();
  }

  int below(int n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }

  void choose_lists() {
    auto const& s = recipe_.shape;
    layout_ = {.batch = static_cast<int>(s.batch),
               .heads = recipe_.list_heads ? recipe_.list_heads : s.query_heads,
               .queries = s.queries,
               .tile_rows = recipe_.tile_rows,
               .causal = recipe_.causal};
    if (recipe_.lists == lists::dense || recipe_.lists == lists::ruled) layout_.capacity = {.spans = 1};
    if (recipe_.lists == lists::window) layout_.capacity = {.shared_spans = 1};
    int const spans = recipe_.spans, columns = recipe_.columns;
    if (recipe_.lists == lists::mixed) layout_.capacity = {.spans = spans ? spans : 6, .shared_spans = 1, .columns = columns ? columns : 40};
    if (recipe_.lists == lists::members) layout_.capacity = {.spans = spans ? spans : 9, .members = true};
    index_memory_.assign(lacuna::index_bytes(layout_), std::byte{0x5a});  // an index is whatever its memory holds until it is filled
    auto x = lacuna::make_index(layout_, index_memory_.data());
    for (index_t b = 0; b < s.batch; ++b)
      for (int list = 0; list < x.heads; ++list) choose_head(x, b, list);
  }

  void choose_head(lacuna::sparse_index& x, index_t b, int list) {
    auto const s = lacuna::sequence_at(recipe_.lengths(), recipe_.shape, b);
    index_t const head = x.head_at(b, list);
    x.rules[head] = {};
    x.prefix[head] = 0;
    x.column_count[head] = 0;
    if (recipe_.lists == lists::ruled) x.rules[head] = {.sinks = below(5), .window = 1 + below(40), .dense_from = below(2) ? 250 : 2000};
    if (recipe_.lists == lists::window || recipe_.lists == lists::mixed) {
      bool const exact = recipe_.lists == lists::window;
      std::int32_t const window = 1 + below(exact ? 40 : 20), sinks = below(5);
      x.prefix[head] = sinks;
      if (exact) x.rules[head] = {.sinks = sinks, .window = window};
      for (int partial = 0; partial < 2; ++partial) {
        std::int32_t const rows = partial ? static_cast<std::int32_t>(s.queries % x.tile_rows) : x.tile_rows;
        x.shared_count[head * 2 + partial] = 1;
        x.shared[x.shared_at(head, partial)] = {1 - window, x.causal ? rows : 0x7fffffff};
      }
    }
    if (recipe_.lists == lists::mixed)
      for (index_t key = 0; key < s.keys && x.column_count[head] < x.capacity.columns; key += 1 + below(6))
        x.columns[head * x.capacity.columns + x.column_count[head]++] = static_cast<std::int32_t>(key);
    for (index_t tile = 0; tile < x.tiles; ++tile) choose_row(x, s, head, tile);
  }

  void choose_row(lacuna::sparse_index& x, lacuna::sequence const& s, index_t head, index_t tile) {
    index_t const row = head * x.tiles + tile, limit = x.limit_of(s, tile);
    x.row_count[row] = 0;
    if (recipe_.lists == lists::dense || recipe_.lists == lists::ruled) {
      x.row_count[row] = 1 | lacuna::sparse_index::alone;
      x.own[x.own_at(row)] = {0, 0x7fffffff};
    }
    if (recipe_.lists == lists::members) {
      std::int32_t key = below(3);
      for (int e = 0; e < x.capacity.spans && key < limit; ++e, key += below(30)) {
        std::int32_t const begin = key;
        key += 1 + below(20);
        x.own[x.own_at(row) + e] = {begin, key};
        x.members[x.own_at(row) + e] = std::uint64_t{engine_()} << 32 | engine_();
        ++x.row_count[row];
      }
    }
    if (recipe_.lists != lists::mixed) return;
    bool const alone = below(4) == 0;
    index_t const first = s.position(tile * x.tile_rows), from = alone ? 0 : x.prefix[head];
    index_t const to = alone ? limit : std::max<index_t>(from, first + x.shared[x.shared_at(head, 0)].begin);
    std::vector<bool> taken(s.keys);
    for (index_t key = 0; key < s.keys; ++key) taken[key] = !alone && (key < from || key >= to);
    std::int32_t key = static_cast<std::int32_t>(from) + below(9), spans = 0;
    for (; spans < below(x.capacity.spans + 1); ++spans) {
      std::int32_t const begin = key, end = begin + 1 + below(70);
      if (begin >= std::min(to, limit)) break;
      x.own[x.own_at(row) + spans] = {begin, static_cast<std::int32_t>(std::min<index_t>(end, to))};
      for (index_t k = begin; k < std::min<index_t>({end, to, s.keys}); ++k) taken[k] = true;
      key = end + 1 + below(25);
    }
    x.row_count[row] = spans | (alone ? lacuna::sparse_index::alone : 0);
    for (int w = 0; w < x.column_words(); ++w) x.column_bits[row * x.column_words() + w] = 0;
    for (int c = 0; c < x.column_count[head]; ++c) {
      std::int32_t const column = x.columns[head * x.capacity.columns + c];
      if (column < limit && !taken[column] && below(3) > 0) x.column_bits[row * x.column_words() + c / 32] |= 1u << c % 32;
    }
  }

  void hide_unread() {
    auto const& s = recipe_.shape;
    std::vector<bool> read(k_.size() / s.key_dim);
    each_row([&](lacuna::sequence const& at, index_t b, int h, index_t i) {
      for (index_t const key : keys_of(at, b, h, i)) read[key_row(at, b, h, key)] = true;
    });
    auto const nan = lacuna::from_float<T>(std::numeric_limits<float>::quiet_NaN());
    for (std::size_t row = 0; row < read.size(); ++row) {
      if (read[row]) continue;
      std::fill_n(k_.begin() + row * s.key_dim, s.key_dim, nan);
      std::fill_n(v_.begin() + row * s.value_dim, s.value_dim, nan);
    }
  }

  attend_recipe recipe_;
  std::mt19937 engine_;
  std::vector<T> q_, k_, v_;
  std::vector<float> sinks_;
  std::vector<std::uint64_t> tree_;
  lacuna::logit_transform logits_;
  lacuna::index_layout layout_;
  std::vector<std::byte> index_memory_;
};

/// What one rounding to T adds.
template <class T>
inline constexpr float rounding = 1e-6f;
template <>
inline constexpr float rounding<lacuna::bfloat16> = 0x1p-8f;
template <>
inline constexpr float rounding<lacuna::float16> = 0x1p-11f;

/// Largest error in units of what is allowed: at most 1 means equal. Counts a row written that must not be, or the reverse, as infinite.
inline float excess(std::vector<float> const& got, std::vector<float> const& expected, float relative, float absolute) {
  float worst = got.size() == expected.size() ? 0 : lacuna::infinity;
  for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
    float const a = got[i], b = expected[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    float const error = std::abs(a - b) / (relative * std::abs(b) + absolute);
    worst = error >= 0 ? std::max(worst, error) : lacuna::infinity;
  }
  return worst;
}

/// The same for a whole result of element T. Values are of order 1, logits of order 10.
template <class T>
float excess(attend_result const& got, attend_result const& expected) {
  return std::max(excess(got.out, expected.out, rounding<T>, 1e-5f), excess(got.lse, expected.lse, 1e-6f, 1e-5f));
}

/// Calls that a right body must survive: odd sizes, groups, dims, lengths and every kind of list.
inline std::vector<std::pair<std::string, attend_recipe>> attend_recipes() {
  std::vector<std::pair<std::string, attend_recipe>> all;
  auto const shape = [](index_t batch, index_t queries, index_t keys, int heads, int kv, int dim, int value_dim) {
    return lacuna::attention_shape{batch, queries, keys, heads, kv, dim, value_dim};
  };
  for (auto const kind : {lists::dense, lists::window, lists::mixed, lists::members}) {
    auto const name = std::string{kind == lists::dense    ? "dense"
                                  : kind == lists::window ? "window"
                                  : kind == lists::mixed  ? "mixed"
                                                          : "members"};
    for (index_t const n : {1, 63, 64, 65})
      all.emplace_back(name + ", n = " + std::to_string(n), attend_recipe{shape(1, n, n, 2, 2, 16, 16), kind});
    all.emplace_back(name + ", 3 queries on 1 key", attend_recipe{shape(1, 3, 1, 1, 1, 64, 64), kind});
    all.emplace_back(name + ", more queries than keys", attend_recipe{shape(2, 130, 70, 2, 1, 8, 24), kind});
    all.emplace_back(name + ", group 7", attend_recipe{shape(1, 65, 130, 7, 1, 8, 8), kind});
    all.emplace_back(name + ", heads 9:3, lists per kv head",
                     attend_recipe{.shape = shape(2, 33, 97, 9, 3, 32, 40), .lists = kind, .tile_rows = 16, .list_heads = 3});
    all.emplace_back(name + ", one list for all heads",
                     attend_recipe{.shape = shape(1, 66, 66, 4, 2, 8, 8), .lists = kind, .list_heads = 1});
    all.emplace_back(name + ", not causal", attend_recipe{.shape = shape(2, 65, 70, 2, 2, 16, 8), .lists = kind, .causal = false});
    all.emplace_back(name + ", d = 256", attend_recipe{shape(1, 17, 90, 2, 1, 256, 256), kind});
    all.emplace_back(name + ", soft cap and sinks",
                     attend_recipe{.shape = shape(1, 40, 80, 2, 1, 24, 16), .lists = kind, .soft_cap = 1.5f, .sink_logits = true});
    all.emplace_back(name + ", sinks on empty rows",
                     attend_recipe{.shape = shape(1, 5, 2, 2, 1, 8, 8), .lists = kind, .sink_logits = true});
    all.emplace_back(name + ", lengths below and above",
                     attend_recipe{.shape = shape(4, 1, 100, 4, 2, 16, 16), .lists = kind, .key_lengths = {100, -1, 0, 7}});
    all.emplace_back(
        name + ", padded queries",
        attend_recipe{.shape = shape(3, 70, 90, 2, 1, 16, 16), .lists = kind, .query_lengths = {70, 0, 3}, .key_lengths = {80, 40, 1000}});
    all.emplace_back(name + ", packed", attend_recipe{.shape = shape(4, 66, 90, 3, 1, 8, 16),
                                                      .lists = kind,
                                                      .query_offsets = {0, 5, 5, 71, 72},
                                                      .key_offsets = {0, 90, 91, 140, 147}});
    all.emplace_back(name + ", tree",
                     attend_recipe{.shape = shape(2, 7, 150, 4, 2, 16, 16), .lists = kind, .tree = true, .key_lengths = {150, 30}});
    all.emplace_back(name + ", split",
                     attend_recipe{.shape = shape(2, 2, 300, 4, 2, 16, 24), .lists = kind, .splits = 7, .split_keys = 48});
    all.emplace_back(name + ", split with sinks and empty rows", attend_recipe{.shape = shape(2, 3, 200, 2, 1, 8, 8),
                                                                               .lists = kind,
                                                                               .sink_logits = true,
                                                                               .splits = 3,
                                                                               .split_keys = 64,
                                                                               .key_lengths = {200, 2}});
  }
  for (int dim = 8; dim <= 256; dim += 24)
    all.emplace_back("d = " + std::to_string(dim), attend_recipe{shape(1, 5, 40, 2, 1, dim, 264 - dim), lists::dense});
  return all;
}

}  // namespace test
