#pragma once
#include <lacuna/core/softmax_state.hpp>
#include <lacuna/kernels/attend_args.hpp>

#include <cstddef>

namespace lacuna {

/// Query rows of each sequence that are looked at: `count` of them, every `step`-th, ending with the last. Fewer if there are fewer.
struct sampled_rows {
  index_t count, step = 1;

  LACUNA_HD constexpr index_t in(sequence const& s) const { return min(count, ceil_div(s.queries, step)); }
  /// The query that sample i of in(s) is, ascending.
  LACUNA_HD constexpr index_t query(sequence const& s, index_t i) const { return s.queries - 1 - (in(s)-1 - i) * step; }
};

/// The share of a row's softmax that lies on the keys of its list: 1 when all does, or the row sees no key. Keys are taken as they lie.
/// Block (b * rows.count + sample) * query heads + head.
template <class Inputs>
struct captured_mass {
  Inputs in;
  sparse_index index;
  sampled_rows rows;
  tensor_view<float, 3> mass;  // [batch, samples, query heads]; samples that do not exist are left alone

  LACUNA_HD index_t blocks() const { return in.shape.batch * rows.count * in.shape.query_heads; }
  LACUNA_HD std::size_t scratch_bytes() const { return 2 * most_members * sizeof(softmax_state); }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t block) const {
    row_task t;
    t.head = static_cast<int>(block % in.shape.query_heads), t.b = block / in.shape.query_heads / rows.count;
    index_t const sample = block / in.shape.query_heads % rows.count;
    t.s = sequence_at(in.lengths, in.shape, t.b);
    if (sample >= rows.in(t.s)) return;
    t.i = rows.query(t.s, sample), t.position = t.s.position(t.i);
    t.list = list_head(t.head, in.shape.query_heads, index.heads);

    auto* const states = reinterpret_cast<softmax_state*>(team.scratch());  // [2, members]
    states[team.rank()] = all_keys(team, t);
    states[most_members + team.rank()] = listed_keys(team, t);
    team.sync();
    if (team.rank() == 0) mass(t.b, sample, t.head) = share(joined(states, team.size()), joined(states + most_members, team.size()));
    team.sync();  // states may be written again
  }

 private:
  static constexpr int most_members = 1024;

  struct row_task {
    index_t b, i, position;
    int head, list;
    sequence s;
  };

  LACUNA_HD float logit(row_task const& t, index_t key) const {
    auto const* const q = in.q.row(t.b, t.s.first_query + t.i, t.head);
    auto const* const k = in.kv.key(t.s, t.b, in.shape.kv_head(t.head), key);
    float dot = 0;
    for (int d = 0; d < in.shape.key_dim; ++d) dot += to_float(q[d]) * to_float(k[d]);
    return in.logits(dot);
  }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD softmax_state all_keys(Team& team, row_task const& t) const {
    softmax_state state;
    index_t const end = index.causal ? clamp<index_t>(t.position + 1, 0, t.s.keys) : t.s.keys;
    for (index_t key = team.rank(); key < end; key += team.size()) state.absorb(logit(t, key));
    return state;
  }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD softmax_state listed_keys(Team& team, row_task const& t) const {
    softmax_state state;
    index_row const row = index.row(t.s, t.b, t.list, t.i / index.tile_rows);
    head_rule const rule = index.rules[index.head_at(t.b, t.list)];
    int const token = static_cast<int>(t.i % index.tile_rows);
    for (int e = 0; e < row.span_count(); ++e) {
      span const keys = row.span_at(e);
      if (row.members(e) >> (token & 63) & 1)
        for (index_t key = keys.begin + team.rank(); key < keys.end; key += team.size()) absorb(t, rule, key, state);
    }
    for (int c = team.rank(); c < row.column_count; c += team.size())
      if (row.reads_column(c)) absorb(t, rule, row.columns[c], state);
    return state;
  }

  LACUNA_HD void absorb(row_task const& t, head_rule const& rule, index_t key, softmax_state& state) const {
    if (index.causal && key > t.position) return;
    if (rule.visible(t.position, key)) state.absorb(logit(t, key));
  }

  LACUNA_HD static float joined(softmax_state const* states, int count) {
    softmax_state all;
    for (int i = 0; i < count; ++i) {
      if (states[i].sum == 0) continue;
      all.absorb(states[i].max);
      all.sum += (states[i].sum - 1) * std::exp(states[i].max - all.max);
    }
    return all.lse();
  }

  LACUNA_HD static float share(float all, float listed) {
    if (all == -infinity) return 1;
    return listed == -infinity ? 0 : min(std::exp(listed - all), 1.0f);
  }
};

/// Adds the samples of one run to totals {sum of shares, samples}. Block 0 of 1.
struct add_captured_mass {
  attention_shape shape;
  sequence_lengths lengths;
  sampled_rows rows;
  tensor_view<float const, 3> mass;
  double* totals;  // [2]

  LACUNA_HD index_t blocks() const { return 1; }
  LACUNA_HD std::size_t scratch_bytes() const { return 0; }

  LACUNA_ANY_TEAM
  template <class Team>
  LACUNA_HD void operator()(Team& team, index_t) const {
    if (team.rank() != 0) return;
    for (index_t b = 0; b < shape.batch; ++b)
      for (index_t i = 0; i < rows.in(sequence_at(lengths, shape, b)); ++i)
        for (int h = 0; h < shape.query_heads; ++h) totals[0] += mass(b, i, h), totals[1] += 1;
  }
};

}  // namespace lacuna
