#pragma once
#include <lacuna/pattern/pattern.hpp>
#include <lacuna/storage/contiguous.hpp>

#include <algorithm>
#include <random>
#include <vector>

#include "support/place.hpp"

namespace test {

using lacuna::index_t;

/// Random queries and keys of a batch with lengths of its own, padded or packed, for patterns that look at them.
struct pattern_problem {
  lacuna::attention_shape shape;
  bool causal = true;
  std::vector<std::int32_t> query_lengths{}, key_lengths{};  // empty: the capacity
  bool packed = false;                                       // needs lengths
  lacuna::logit_transform logits{.scale = 1};
  float spread = 1;  // of the elements

  std::vector<float> q{}, k{};
  std::vector<std::int32_t> query_offsets{}, key_offsets{};

  void fill(unsigned seed) {
    std::mt19937 engine{seed};
    std::normal_distribution<float> normal{0, spread};
    index_t const q_tokens = packed ? offsets(query_lengths, query_offsets) : shape.batch * shape.queries;
    index_t const k_tokens = packed ? offsets(key_lengths, key_offsets) : shape.batch * shape.keys;
    q.resize((q_tokens + 1) * shape.query_heads * shape.key_dim), k.resize((k_tokens + 1) * shape.kv_heads * shape.key_dim);
    for (auto& x : q) x = normal(engine);
    for (auto& x : k) x = normal(engine);
  }

  lacuna::sequence_lengths lengths() const {
    if (packed) return {.query_offsets = query_offsets.data(), .key_offsets = key_offsets.data()};
    return {.query_lengths = query_lengths.empty() ? nullptr : query_lengths.data(),
            .key_lengths = key_lengths.empty() ? nullptr : key_lengths.data()};
  }
  lacuna::sequence sequence(index_t b) const { return lacuna::sequence_at(lengths(), shape, b); }

  lacuna::build_inputs<float, lacuna::contiguous_kv<float>> inputs() const { return inputs(q.data(), k.data(), lengths()); }

  /// The inputs over copies of the data elsewhere.
  template <class T>
  lacuna::build_inputs<T, lacuna::contiguous_kv<T>> inputs(T const* q_data, T const* k_data, lacuna::sequence_lengths const& at) const {
    lacuna::tensor_view<T const, 4> queries{q_data, shape.batch, shape.queries, shape.query_heads, shape.key_dim};
    lacuna::tensor_view<T const, 4> keys{k_data, packed ? 1 : shape.batch, shape.keys, shape.kv_heads, shape.key_dim};
    if (packed) queries.stride[0] = 0;
    return {shape, at, queries, {keys, keys}, logits};
  }

  /// Rounds the data to an element type that inputs may then have.
  template <class T>
  void round_to() {
    for (auto* const data : {&q, &k})
      for (auto& x : *data) x = lacuna::to_float(T(x));
  }

  /// The logit of the definition, in double.
  double logit(index_t b, index_t query, int head, index_t key) const {
    auto const in = inputs();
    auto const s = sequence(b);
    float const *const x = in.q.row(b, s.first_query + query, head), *const y = in.kv.key(s, b, shape.kv_head(head), key);
    double dot = 0;
    for (int d = 0; d < shape.key_dim; ++d) dot += double(x[d]) * y[d];
    return dot * logits.scale;
  }

 private:
  static index_t offsets(std::vector<std::int32_t> const& lengths, std::vector<std::int32_t>& out) {
    out.assign(1, 0);
    for (auto const n : lengths) out.push_back(out.back() + n);
    return out.back();
  }
};

/// An index in host memory that held something else before.
struct held_index {
  std::vector<std::byte> memory;
  lacuna::sparse_index index;

  explicit held_index(lacuna::index_layout const& layout) : memory(lacuna::index_bytes(layout) + 256, std::byte{0x5a}) {
    index = lacuna::make_index(layout, start());
  }
  held_index(held_index&&) = default;

  std::byte* start() { return memory.data() + (256 - reinterpret_cast<std::uintptr_t>(memory.data()) % 256) % 256; }
};

template <class Pattern>
lacuna::index_layout layout_of(Pattern const& pattern, pattern_problem const& p) {
  using traits = lacuna::pattern_traits<Pattern>;
  return {.batch = static_cast<int>(p.shape.batch),
          .heads = traits::lists(pattern, p.shape),
          .queries = p.shape.queries,
          .tile_rows = traits::tile_rows(pattern),
          .granularity = traits::granularity,
          .causal = p.causal,
          .capacity = traits::capacity(pattern, p.shape)};
}

/// Plans and builds a pattern's index where the executor's bodies run, in memory full of NaN, and brings it back.
template <class T = float, class Exec, class Pattern>
held_index build_index(Exec const& exec, Pattern const& pattern, pattern_problem const& p) {
  pattern.check(p.shape);
  lacuna::index_layout const layout = layout_of(pattern, p);
  held_index held{layout};
  std::size_t const bytes = lacuna::index_bytes(layout);
  place<Exec> at{exec};
  std::vector<T> const q(p.q.begin(), p.q.end()), k(p.k.begin(), p.k.end());
  auto const in = p.inputs(at.put(q), at.put(k),
                           {at.put(p.query_offsets), at.put(p.key_offsets), p.packed ? nullptr : at.put(p.query_lengths),
                            p.packed ? nullptr : at.put(p.key_lengths)});
  auto* const memory = at.put(std::vector<std::byte>(bytes, std::byte{0x5a}));
  auto* const workspace =
      at.put(std::vector<std::byte>(lacuna::pattern_traits<Pattern>::workspace_bytes(pattern, p.shape), std::byte{0xff}));
  lacuna::build_all(pattern, exec, in, workspace, lacuna::make_index(layout, memory)).or_throw();
  auto const back = at.get(memory, bytes);
  std::copy(back.begin(), back.end(), held.start());
  return held;
}

/// Keys that a tile reads. Not sound if a key comes twice or past the limit, or if spans or columns do not ascend.
struct tile_keys {
  std::vector<std::int32_t> keys;  // ascending
  bool sound = true;
};

inline tile_keys keys_of(lacuna::sparse_index const& index, lacuna::sequence const& s, index_t b, int list, index_t tile) {
  tile_keys t;
  lacuna::index_row const row = index.row(s, b, list, tile);
  std::int32_t end = 0;
  for (int e = 0; e < row.span_count(); ++e) {
    lacuna::span const keys = row.span_at(e);
    t.sound &= keys.size() == 0 || keys.begin >= end;
    if (keys.size() > 0) end = keys.end;
    for (auto key = keys.begin; key < keys.end; ++key) t.keys.push_back(key);
  }
  for (int c = 0; c < row.column_count; ++c) {
    t.sound &= c == 0 || row.columns[c - 1] < row.columns[c];
    if (row.reads_column(c)) t.keys.push_back(row.columns[c]);
  }
  for (int c = row.column_count; c < index.column_words() * 32 && row.column_count; ++c) t.sound &= !row.reads_column(c);
  std::sort(t.keys.begin(), t.keys.end());
  t.sound &= std::adjacent_find(t.keys.begin(), t.keys.end()) == t.keys.end();
  t.sound &= t.keys.empty() || (t.keys.front() >= 0 && t.keys.back() < row.limit);
  return t;
}

/// Lists of an index against their definition: whether all that could be told apart in fp32 were right, and how many these were.
struct verdict {
  bool equal = true;
  int seen = 0, compared = 0;

  explicit operator bool() const { return equal; }
  verdict& operator+=(verdict const& v) {
    equal &= v.equal, seen += v.seen, compared += v.compared;
    return *this;
  }
};

/// Shapes of up to `most_keys` keys with everything that varies: lengths, packing, causality, batch, chunked queries.
inline pattern_problem random_problem(std::mt19937& engine, index_t most_keys) {
  auto const pick = [&](index_t low, index_t high) { return low + static_cast<index_t>(engine() % (high - low + 1)); };
  pattern_problem p;
  p.shape = {.batch = pick(1, 2),
             .keys = pick(1, most_keys),
             .query_heads = 2,
             .kv_heads = static_cast<int>(pick(1, 2)),
             .key_dim = 8,
             .value_dim = 8};
  p.shape.queries = pick(0, 2) ? pick(1, p.shape.keys) : p.shape.keys;
  p.causal = pick(0, 3) > 0;
  p.logits.scale = 0.5f;
  if (pick(0, 1)) {
    for (index_t b = 0; b < p.shape.batch; ++b) {
      auto const keys = pick(0, p.shape.keys);
      p.key_lengths.push_back(static_cast<std::int32_t>(keys));
      p.query_lengths.push_back(static_cast<std::int32_t>(pick(0, std::min(keys, p.shape.queries))));
    }
    p.packed = pick(0, 1);
  }
  p.fill(static_cast<unsigned>(engine()));
  return p;
}

}  // namespace test
