#pragma once
#include "support/attend_problem.hpp"

#include <lacuna/lacuna.hpp>

#include <utility>
#include <vector>

namespace test {

template <class T, int D, class Pattern, int Dv = D>
struct config_of : lacuna::attention_defaults<T, D, Dv> {
  using pattern = Pattern;
};

/// Inputs of one call of the facade in host memory.
template <class T>
struct call_data {
  lacuna::attention_shape shape;  // capacities
  std::vector<std::int32_t> query_offsets = {}, key_offsets = {}, query_lengths = {}, key_lengths = {};
  std::vector<float> sink_logits = {};
  std::vector<T> q = {}, k = {}, v = {};

  index_t query_tokens() const { return query_offsets.empty() ? shape.queries : query_offsets.back(); }
  index_t key_tokens() const { return key_offsets.empty() ? shape.keys : key_offsets.back(); }
  index_t query_batch() const { return query_offsets.empty() ? shape.batch : 1; }
  index_t key_batch() const { return key_offsets.empty() ? shape.batch : 1; }

  call_data& randomize(unsigned seed) {
    q = normals<T>(query_batch() * query_tokens() * shape.query_heads * shape.key_dim, seed);
    k = normals<T>(key_batch() * key_tokens() * shape.kv_heads * shape.key_dim, seed + 1);
    v = normals<T>(key_batch() * key_tokens() * shape.kv_heads * shape.value_dim, seed + 2);
    return *this;
  }
};

/// Keys that each query reads, as maximal runs: [batch, list head, query]. The same for every tile size that spells the same pattern.
using index_lists = std::vector<std::vector<lacuna::span>>;

inline std::vector<lacuna::span> runs_of(std::vector<std::int32_t> keys) {
  std::sort(keys.begin(), keys.end());
  std::vector<lacuna::span> runs;
  for (std::int32_t const key : keys)
    if (!runs.empty() && runs.back().end == key)
      ++runs.back().end;
    else
      runs.push_back({key, key + 1});  // a key read twice shows as a run that begins again
  return runs;
}

inline index_lists lists_of(lacuna::sparse_index const& x, lacuna::attention_shape const& shape, lacuna::sequence_lengths const& lengths) {
  index_lists all;
  for (index_t b = 0; b < x.batch; ++b) {
    auto const s = lacuna::sequence_at(lengths, shape, b);
    for (int h = 0; h < x.heads; ++h)
      for (index_t i = 0; i < s.queries; ++i) {
        auto const row = x.row(s, b, h, i / x.tile_rows);
        auto const rule = x.rules[x.head_at(b, h)];
        std::vector<std::int32_t> keys;
        auto const add = [&](std::int32_t key) {
          if ((!x.causal || key <= s.position(i)) && rule.visible(s.position(i), key)) keys.push_back(key);
        };
        for (int e = 0; e < row.span_count(); ++e)
          if (row.members(e) >> (i % x.tile_rows & 63) & 1)
            for (std::int32_t key = row.span_at(e).begin; key < row.span_at(e).end; ++key) add(key);
        for (int c = 0; c < row.column_count; ++c)
          if (row.reads_column(c)) add(row.columns[c]);
        all.push_back(runs_of(std::move(keys)));
      }
  }
  return all;
}

/// A call of the facade with its data on an executor's side. Outputs start as NaN.
template <class Config, class Exec>
class call_on {
 public:
  using T = typename Config::element;

  call_on(Exec const& exec, lacuna::sparse_attention<Config> const& attention, call_data<T> const& data, bool decode = false)
      : at_{exec},
        attention_{attention},
        data_{data},
        plan_{decode ? attention.plan_decode(exec, data.shape) : attention.plan_prefill(exec, data.shape)},
        scratch_{exec, plan_.workspace_bytes()} {
    auto const& s = data.shape;
    rows_ = data.query_batch() * data.query_tokens() * s.query_heads;
    io_.q = {at_.put(data.q), data.query_batch(), data.query_tokens(), s.query_heads, s.key_dim};
    io_.out = {at_.template make<T>(rows_ * s.value_dim), data.query_batch(), data.query_tokens(), s.query_heads, s.value_dim};
    io_.lse = {at_.template make<float>(rows_), data.query_batch(), data.query_tokens(), s.query_heads};
    io_.lengths = {at_.put(data.query_offsets), at_.put(data.key_offsets), at_.put(data.query_lengths), at_.put(data.key_lengths)};
    io_.sink_logits = at_.put(data.sink_logits);
    kv_ = {{at_.put(data.k), data.key_batch(), data.key_tokens(), s.kv_heads, s.key_dim},
           {at_.put(data.v), data.key_batch(), data.key_tokens(), s.kv_heads, s.value_dim}};
    poison();
  }

  place<Exec>& at() { return at_; }
  lacuna::attention_io<T>& io() { return io_; }
  lacuna::contiguous_kv<T>& kv() { return kv_; }
  lacuna::attention_plan const& plan() const { return plan_; }

  void poison() {
    auto const nan = std::numeric_limits<float>::quiet_NaN();
    at_.refill(io_.out.data, std::vector<T>(rows_ * data_.shape.value_dim, lacuna::from_float<T>(nan)));
    at_.refill(io_.lse.data, std::vector<float>(rows_, nan));
  }

  /// Neither waits nor allocates: fit for capture.
  lacuna::status run() const { return run_with(kv_); }

  /// With another reader of keys and values.
  template <class Kv>
  lacuna::status run_with(Kv const& kv) const {
    return attention_.prefill(at_.exec(), plan_, scratch_, io_, kv);
  }

  attend_result result() {
    auto const out = at_.get(io_.out.data, rows_ * data_.shape.value_dim);
    attend_result r{std::vector<float>(out.size()), at_.get(io_.lse.data, rows_)};
    std::ranges::transform(out, r.out.begin(), [](T x) { return lacuna::to_float(x); });
    return r;
  }

  attend_result run_and_read() {
    run().or_throw();
    return result();
  }

  index_lists lists() {
    auto image = at_.get(scratch_.data(), lacuna::index_bytes(plan_.layout()));
    auto const or_null = [](auto const& v) { return v.empty() ? nullptr : v.data(); };
    return lists_of(lacuna::make_index(plan_.layout(), image.data()), data_.shape,
                    {or_null(data_.query_offsets), or_null(data_.key_offsets), or_null(data_.query_lengths), or_null(data_.key_lengths)});
  }

 private:
  place<Exec> at_;
  lacuna::sparse_attention<Config> attention_;
  call_data<T> data_;
  lacuna::attention_plan plan_;
  lacuna::workspace<Exec> scratch_;
  lacuna::attention_io<T> io_;
  lacuna::contiguous_kv<T> kv_;
  std::size_t rows_ = 0;
};

}  // namespace test
