#pragma once
#include <lacuna/core/sparse_index.hpp>
#include <lacuna/kernels/host/few_rows.hpp>
#include <lacuna/kernels/host/turned_rows.hpp>
#include <lacuna/kernels/scan_queries.hpp>

namespace lacuna {

/// Queries of some heads that read the same keys, and the best of their products with batches of keys. Many rows stand in panels; past a
/// few rows keys stream as they lie in memory.
template <class Rule>
class host_scan_rows {
 public:
  static constexpr int most_keys = simd::few_keys;  // of a batch
  static constexpr int most_few_rows = 16;

  host_scan_rows(scan_rope const& rope, int key_dim, int query_block, int heads, host_isa isa, detail::carver& block)
      : rope_{rope}, key_dim_{key_dim}, query_block_{query_block}, isa_{isa} {
    index_t const rows = index_t{heads} * query_block, width = round_up<index_t>(rows, simd::most_panel_rows);
    rows_ = block.take<float>(heads * scan_queries<Rule>::floats(key_dim, query_block));
    panels_ = block.take<float>(scan_rope::most_variants * width * dim());
    keys_ = block.take<float>((most_keys + simd::most_tile_keys) * dim());
    s_ = block.take<float>((most_keys + simd::most_tile_keys) * simd::most_panel_rows);
  }

  /// Takes `count` heads from `head` on.
  template <class Inputs>
  void prepare(Inputs const& in, scan_block const& at, int head, int count) {
    block_ = at, heads_ = count, all_rows_ = count * at.pooled_rows();
    serial_team team{nullptr};
    for (int h = 0; h < count; ++h) queries(h).prepare(team, in, head + h);
    for (int v = 0; v < rope_.variants(); ++v)
      for (int first = 0; first < padded_rows(); first += simd::most_panel_rows) pack(v, first);
  }

  /// Largest product of the rows with each of up to most_keys keys or summaries.
  template <class T>
  void best(T const* const* key, scanned_key const* at, int count, float* out) {
    T const* chosen[most_keys];
    int place[most_keys];
    for (int v = 0; v < rope_.variants(); ++v) {
      int n = 0;
      for (int j = 0; j < count; ++j) {
        if (variant_of(at[j]) != v) continue;
        if (rope_.turns_keys()) turn_[n] = rope_.key_turn(v, at[j], block_.longest());
        chosen[n] = key[j], place[n++] = j;
      }
      if (n > 0) score(v, chosen, n);
      for (int j = 0; j < n; ++j) out[place[j]] = best_[j];
    }
    for (int j = 0; rope_.variants() > 1 && j < count; ++j)
      if (variant_of(at[j]) < 0) out[j] = mixed(key[j], at[j]);
  }

 private:
  int dim() const { return summary_planes<Rule> * key_dim_; }
  bool few() const { return all_rows_ <= most_few_rows; }
  int padded_rows() const { return few() ? all_rows_ : round_up(all_rows_, 16); }

  scan_queries<Rule> queries(int h) const {
    return {rope_, block_, key_dim_, rows_ + h * scan_queries<Rule>::floats(key_dim_, query_block_)};
  }
  float const* row(int variant, int r) const { return queries(r / block_.pooled_rows()).row(variant, r % block_.pooled_rows()); }
  float* panel(int variant, int first) const { return panels_ + (index_t{variant} * padded_rows() + first) * dim(); }

  /// Padding rows repeat the last one, so they change no maximum.
  void pack(int variant, int first) {
    int const width = min(padded_rows() - first, simd::most_panel_rows);
    float const* source[simd::most_panel_rows];
    for (int r = 0; r < width; ++r) source[r] = row(variant, min(first + r, all_rows_ - 1));
    float* const to = panel(variant, first);
    if (few())
      for (int r = 0; r < width; ++r)
        for (int d = 0; d < dim(); ++d) to[r * dim() + d] = source[r][d];
    else
      simd::run_on(isa_, simd::pack_rows<float>{source, to, width, dim(), 1});
  }

  /// The variant that meets the key in every row; -1 where rows differ.
  int variant_of(scanned_key const& at) const {
    int const first = rope_.variant(block_.position(0), at), last = rope_.variant(block_.position(block_.pooled_rows() - 1), at);
    return first == last ? first : -1;
  }

  /// Products of one variant with `count` keys; their maxima go to best_.
  template <class T>
  void score(int v, T const** key, int count) {
    for (int j = 0; j < count; ++j) best_[j] = -infinity;
    bool const turned = rope_.turns_keys();
    if (turned)
      simd::run_on(isa_, simd::gather_turned_rows<T>{key, turn_, keys_, count, dim(), rope_.table});
    else if (!few())
      simd::run_on(isa_, simd::gather_rows<T>{key, keys_, count, dim()});
    if (!few()) return score_panels(v, count);
    float const* copy[most_keys];
    for (int j = 0; j < count; ++j) copy[j] = keys_ + index_t{j} * dim();
    if (turned)
      score_few(v, copy, count);
    else
      score_few(v, key, count);
  }

  void score_panels(int v, int count) {
    for (int first = 0; first < padded_rows(); first += simd::most_panel_rows) {
      int const width = min(padded_rows() - first, simd::most_panel_rows);
      simd::run_on(isa_, simd::score_panel{panel(v, first), {keys_, dim(), count}, s_, width, dim()});
      simd::run_on(isa_, simd::row_maxima{s_, count, width, best_});
    }
  }

  template <class T>
  void score_few(int v, T const** key, int count) {
    for (int j = count; j < round_up(count, 4); ++j) key[j] = key[count - 1];
    simd::run_on(isa_, simd::few_scores<T>{panel(v, 0), key, s_, all_rows_, count, dim(), {}});
    for (int r = 0; r < all_rows_; ++r)
      for (int j = 0; j < count; ++j) best_[j] = max(best_[j], s_[r * simd::few_keys + j]);
  }

  template <class T>
  float mixed(T const* key, scanned_key const& at) const {
    float most = -infinity;
    for (int h = 0; h < heads_; ++h) most = max(most, queries(h).best(key, at));
    return most;
  }

  scan_rope const& rope_;
  int key_dim_, query_block_;
  host_isa isa_;
  float *rows_, *panels_, *keys_, *s_;
  scan_block block_{};
  int heads_ = 0, all_rows_ = 0;
  index_t turn_[most_keys];
  float best_[most_keys];
};

}  // namespace lacuna
