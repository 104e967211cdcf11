#pragma once
#include <lacuna/pattern/pattern.hpp>
#include <lacuna/storage/contiguous.hpp>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

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
    return {.query_lengths = query_lengths.empty() ? nullptr : query_lengths.data(), .key_lengths = key_lengths.empty() ? nullptr : key_lengths.data()};
  }
  lacuna::sequence sequence(index_t b) const { return lacuna::sequence_at(lengths(), shape, b); }

  lacuna::build_inputs<float, lacuna::contiguous_kv<float>> inputs() const {
    lacuna::tensor_view<float const, 4> queries{q.data(), shape.batch, shape.queries, shape.query_heads, shape.key_dim};
    lacuna::tensor_view<float const, 4> keys{k.data(), packed ? 1 : shape.batch, shape.keys, shape.kv_heads, shape.key_dim};
    if (packed) queries.stride[0] = 0;
    return {shape, lengths(), queries, {keys, keys}, logits};
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

/// An index in memory that held something else before.
struct held_index {
  std::vector<std::byte> memory;
  lacuna::sparse_index index;

  explicit held_index(lacuna::index_layout const& layout) : memory(lacuna::index_bytes(layout) + 256, std::byte{0x5a}) {
    auto const address = reinterpret_cast<std::uintptr_t>(memory.data());
    index = lacuna::make_index(layout, memory.data() + (256 - address % 256) % 256);
  }
  held_index(held_index&&) = default;
};

/// Plans and builds a pattern's index in memory full of NaN.
template <class Exec, class Pattern>
held_index build_index(Exec const& exec, Pattern const& pattern, pattern_problem const& p) {
  using traits = lacuna::pattern_traits<Pattern>;
  pattern.check(p.shape);
  held_index held{{.batch = static_cast<int>(p.shape.batch),
                   .heads = traits::lists(pattern, p.shape),
                   .queries = p.shape.queries,
                   .tile_rows = traits::tile_rows(pattern),
                   .granularity = traits::granularity,
                   .causal = p.causal,
                   .capacity = traits::capacity(pattern, p.shape)}};
  std::size_t const bytes = traits::workspace_bytes(pattern, p.shape);
  void* const workspace = exec.allocate(bytes + 1);
  std::memset(workspace, 0xff, bytes);
  lacuna::build_all(pattern, exec, p.inputs(), static_cast<std::byte*>(workspace), held.index).or_throw();
  exec.deallocate(workspace, bytes + 1);
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

}  // namespace test
