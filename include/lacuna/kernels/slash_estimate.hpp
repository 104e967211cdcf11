#pragma once
#include <lacuna/core/element.hpp>
#include <lacuna/core/shape.hpp>
#include <lacuna/core/softmax_state.hpp>
#include <lacuna/core/sparse_index.hpp>
#include <lacuna/exec/team.hpp>

#include <cstddef>

namespace lacuna {

/// Where the vertical-slash estimate of the lists of one head set lies: the attention mass of the last queries, summed by column and by
/// distance. Distance D = query position - key position stands in entry D + rows - 1, rows being the queries that were looked at.
struct slash_sums {
  static constexpr int most_rows = 128;

  index_t keys = 0;            // capacity
  float* columns = nullptr;    // [batch, lists of the set, keys]
  float* distances = nullptr;  // [batch, lists of the set, keys + most_rows - 1]

  LACUNA_HD constexpr index_t distance_stride() const { return keys + most_rows - 1; }
  LACUNA_HD float* columns_of(index_t list) const { return columns + list * keys; }
  LACUNA_HD float* distances_of(index_t list) const { return distances + list * distance_stride(); }

  /// Queries that stand for the sequence: the last `most`, or those there are. Queries before the first key see nothing.
  LACUNA_HD static constexpr int rows(sequence const& s, int most) { return static_cast<int>(min<index_t>(most, min(s.queries, s.keys))); }
};

/// The parts from which the portable bodies join the sums, chunk by chunk of keys.
struct slash_parts {
  static constexpr int chunk = 256;  // keys; at least most_rows - 1, so that a distance lies in two chunks at most
  static constexpr int chunk_distances = chunk + slash_sums::most_rows - 1;

  index_t chunks = 0;               // ceil(keys / chunk) of the capacity
  softmax_state* states = nullptr;  // [batch, lists, chunks, most_rows] of each query over the chunk
  float* lse = nullptr;             // [batch, lists, most_rows]
  float* distances = nullptr;       // [batch, lists, chunks, chunk_distances]

  LACUNA_HD softmax_state* states_of(index_t list, index_t c) const { return states + (list * chunks + c) * slash_sums::most_rows; }
  LACUNA_HD float* lse_of(index_t list) const { return lse + list * slash_sums::most_rows; }
  LACUNA_HD float* distances_of(index_t list, index_t c) const { return distances + (list * chunks + c) * chunk_distances; }
};

/// What the bodies of the estimate share. List i of the set belongs to query head heads.list[i]; its amounts state estimate_rows.
/// Logits are scaled (and capped) as attention does it and kept in fp32. [MInference, section 3]
template <class Inputs, class HeadSet>
struct slash_estimate {
  Inputs in;
  HeadSet heads;
  bool causal;
  slash_sums sums;
  slash_parts parts;

  /// One list of one sequence, or one chunk of its keys.
  struct task {
    index_t b, list, chunk;
    int kv_head, rows;
    sequence s;
    typename Inputs::element const* q;  // first of the last queries
    index_t begin, end;                 // keys of the chunk
  };

  LACUNA_HD index_t lists() const { return in.shape.batch * heads.count; }

  LACUNA_HD task list_at(index_t list) const {
    task t{};
    t.b = list / heads.count, t.list = list;
    int const i = static_cast<int>(list % heads.count);
    t.kv_head = in.shape.kv_head(heads.list[i]);
    t.s = sequence_at(in.lengths, in.shape, t.b);
    t.rows = slash_sums::rows(t.s, heads.of(i).estimate_rows);
    t.q = in.q.row(t.b, t.s.first_query + t.s.queries - t.rows, heads.list[i]);
    return t;
  }

  LACUNA_HD task chunk_at(index_t block) const {
    task t = list_at(block / parts.chunks);
    t.chunk = block % parts.chunks;
    t.begin = min<index_t>(t.chunk * parts.chunk, t.s.keys), t.end = min<index_t>(t.begin + parts.chunk, t.s.keys);
    if (t.rows == 0) t.end = t.begin;
    return t;
  }

  LACUNA_HD float logit(task const& t, int row, index_t key) const {
    if (causal && key > t.s.keys - t.rows + row) return -infinity;
    auto const* const q = t.q + row * in.q.stride[1];
    auto const* const k = in.kv.key(t.s, t.b, t.kv_head, key);
    float dot = 0;
    for (int d = 0; d < in.shape.key_dim; ++d) dot += to_float(q[d]) * to_float(k[d]);
    return in.logits(dot);
  }
};

/// First pass: maximum and sum of every row over a chunk. Block list * chunks + chunk.
template <class Estimate>
struct slash_chunk_states {
  Estimate e;

  LACUNA_HD index_t blocks() const { return e.lists() * e.parts.chunks; }
  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
    auto const t = e.chunk_at(block);
    if (t.begin == t.end) return;
    for (int row = team.rank(); row < t.rows; row += team.size()) {
      softmax_state state;
      for (index_t key = t.begin; key < t.end; ++key) state.absorb(e.logit(t, row, key));
      e.parts.states_of(t.list, t.chunk)[row] = state;
    }
  }
};

/// Joins the chunks of every row in ascending order. Block = list.
template <class Estimate>
struct slash_row_lse {
  Estimate e;

  LACUNA_HD index_t blocks() const { return e.lists(); }
  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t list) const {
    auto const t = e.list_at(list);
    for (int row = team.rank(); row < t.rows; row += team.size()) {
      softmax_state all;
      for (index_t c = 0; c * e.parts.chunk < t.s.keys; ++c) {
        softmax_state const part = e.parts.states_of(list, c)[row];
        if (part.sum == 0) continue;
        float const sum = part.sum;
        all.absorb(part.max);
        all.sum += (sum - 1) * std::exp(part.max - all.max);
      }
      e.parts.lse_of(list)[row] = all.lse();
    }
  }
};

/// Second pass: probabilities of a chunk, 32 keys at a time, summed by column and by distance. Block list * chunks + chunk.
template <class Estimate>
struct slash_chunk_sums {
  Estimate e;

  static constexpr int width = 32;

  LACUNA_HD index_t blocks() const { return e.lists() * e.parts.chunks; }
  LACUNA_HD std::size_t scratch_bytes() const { return (slash_sums::most_rows * width + slash_parts::chunk_distances) * sizeof(float); }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
    auto const t = e.chunk_at(block);
    if (t.begin == t.end) return;
    float* const weight = reinterpret_cast<float*>(team.scratch());  // [rows, width]
    float* const by_distance = weight + slash_sums::most_rows * width;
    int const distances = slash_parts::chunk + t.rows - 1;
    for (int u = team.rank(); u < distances; u += team.size()) by_distance[u] = 0;
    for (int x = 0; x < t.end - t.begin; x += width) {
      int const count = static_cast<int>(min<index_t>(width, t.end - t.begin - x));
      weigh(team, t, t.begin + x, count, weight);
      team.sync();
      add_columns(team, t, t.begin + x, count, weight);
      add_distances(team, t, x, count, weight, by_distance);
      team.sync();
    }
    float* const out = e.parts.distances_of(t.list, t.chunk);
    for (int u = team.rank(); u < distances; u += team.size()) out[u] = by_distance[u];
  }

 private:
  using task = typename Estimate::task;

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void weigh(Team& team, task const& t, index_t key, int count, float* weight) const {
    float const* const lse = e.parts.lse_of(t.list);
    for (int at = team.rank(); at < t.rows * width; at += team.size()) {
      int const row = at / width, x = at % width;
      if (x < count) weight[at] = std::exp(e.logit(t, row, key + x) - lse[row]);
    }
  }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void add_columns(Team& team, task const& t, index_t key, int count, float const* weight) const {
    for (int x = team.rank(); x < count; x += team.size()) {
      float sum = 0;
      for (int row = 0; row < t.rows; ++row) sum += weight[row * width + x];
      e.sums.columns_of(t.list)[key + x] = sum;
    }
  }

  /// Entry u of a chunk: row - key in the chunk + chunk - 1. Each entry has one owner between two syncs.
  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void add_distances(Team& team, task const& t, int first, int count, float const* weight, float* by_distance) const {
    for (int v = team.rank(); v < count + t.rows - 1; v += team.size()) {
      int const ahead = v - (count - 1);  // row - x
      float sum = 0;
      for (int x = max(0, -ahead); x < min(count, t.rows - ahead); ++x) sum += weight[(x + ahead) * width + x];
      by_distance[ahead - first + slash_parts::chunk - 1] += sum;
    }
  }
};

/// Adds what the chunks say about each distance, in ascending order of keys. Block list * pieces + piece of 256 distances.
template <class Estimate>
struct slash_join_distances {
  Estimate e;

  static constexpr int piece = 256;

  LACUNA_HD index_t pieces() const { return ceil_div<index_t>(e.sums.distance_stride(), piece); }
  LACUNA_HD index_t blocks() const { return e.lists() * pieces(); }
  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
    auto const t = e.list_at(block / pieces());
    index_t const first = block % pieces() * piece;
    if (t.rows == 0) return;
    index_t const end = min(first + piece, t.s.keys + t.rows - 1);
    for (index_t at = first + team.rank(); at < end; at += team.size()) e.sums.distances_of(t.list)[at] = sum_of(t, at);
  }

 private:
  /// Entry `at` is u = at - keys + (c + 1) * chunk of chunk c, as far as that lies in [0, chunk + rows - 1).
  LACUNA_HD float sum_of(typename Estimate::task const& t, index_t at) const {
    constexpr index_t chunk = slash_parts::chunk;
    float sum = 0;
    for (index_t c = max<index_t>(ceil_div(max<index_t>(t.s.keys - at, 0), chunk) - 1, 0); c * chunk < t.s.keys; ++c) {
      index_t const u = at - t.s.keys + (c + 1) * chunk;
      if (u >= chunk + t.rows - 1) break;
      sum += e.parts.distances_of(t.list, c)[u];
    }
    return sum;
  }
};

}  // namespace lacuna
