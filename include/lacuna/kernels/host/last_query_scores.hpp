#pragma once
#include <lacuna/kernels/host/host_logits.hpp>
#include <lacuna/kernels/host/key_block.hpp>

namespace lacuna {

namespace simd {

/// Adds probabilities of one key block to sums by column and by distance. Row r and key j of the block are r - j apart; keys take
/// turns on 8 buffers, so that no sum is read right after it was written one entry further on.
struct slash_panel {
  float const* s;          // [count, width] logits
  int count, width, rows;  // the first `rows` of `width` are real
  float factor;
  float const *max, *norm;  // [width]; padding rows have norm 0
  float* column;            // [count] added to
  float* distance;          // [count - 1 + rows] added to; entry count - 1 - j + r
  float* buffer;            // [8, turn_floats(count)], all 0 before and after
  static constexpr int turns = 8;
  static constexpr int turn_floats(int count) { return round_up(count + most_panel_rows, 16); }

  template <class Isa>
  [[gnu::always_inline]] inline void run() const {
    int const stride = turn_floats(count);
    typename Isa::f32 by, floor;
    fill<Isa>(by, factor), fill<Isa>(floor, exp2_floor(factor));
    for (int j = 0; j < count; ++j) {
      float* const sums = buffer + j % turns * stride + count - 1 - j;
      typename Isa::f32 total = {};
      for (int r = 0; r < width; r += Isa::lanes) {
        typename Isa::f32 x, y;
        load<Isa>(x, s + j * width + r), load<Isa>(y, max + r);
        x -= y;
        exp2_scaled<Isa>(x, by, floor);
        load<Isa>(y, norm + r);
        x *= y;
        total += x;
        load<Isa>(y, sums + r);
        store<Isa>(sums + r, x + y);
      }
      column[j] += sum_of<Isa>(total);
    }
    for (int i = 0; i < count - 1 + width; ++i) {
      float sum = 0;
      for (int t = 0; t < turns; ++t) sum += buffer[t * stride + i], buffer[t * stride + i] = 0;
      if (i < count - 1 + rows) distance[i] += sum;
    }
  }
};

}  // namespace simd

/// The last queries of one head, whose attention is summed to find where a head looks. [MInference, section 3]
template <class T, class Kv>
struct last_queries {
  static constexpr int most_rows = 128;

  sequence s;
  index_t b;
  int kv_head;
  int rows;          // last queries looked at, at most min(queries, keys, most_rows)
  T const* q;        // first of them
  index_t q_stride;  // from one query to the next
  Kv kv;
  attention_shape shape;
  logit_transform logits;
  bool causal;
};

/// Sums the softmax of the last queries over all visible keys of the sequence, in fp32: `columns` [keys] by key, `distances`
/// [keys + rows - 1] by D = query position - key position in entry D + rows - 1. Both are written, not added to. Two passes: maxima and
/// sums, then logits once more and their probabilities. The result does not depend on threads: one call runs on one.
template <class T, class Kv>
class slash_summer {
 public:
  using task = last_queries<T, Kv>;
  using block_type = key_block<Kv>;

  static std::size_t scratch_bytes(int key_dim) {
    detail::carver count{nullptr};
    slash_summer{}.lay_out(key_dim, count);
    return count.bytes();
  }

  void run(task const& t, host_isa isa, float* columns, float* distances, std::byte* scratch) {
    for (index_t j = 0; j < t.s.keys; ++j) columns[j] = 0;
    for (index_t i = 0; i < t.s.keys + t.rows - 1; ++i) distances[i] = 0;
    if (t.rows == 0) return;
    detail::carver block{scratch};
    lay_out(t.shape.key_dim, block);
    host_logits const logits{t.logits};
    for (int first = 0; first < t.rows; first += simd::most_panel_rows) begin(t, first, logits, isa);
    each_block(t, isa, logits, [&](panel& x, float* s, int count, index_t) {
      simd::run_on(isa, simd::softmax_panel{s, count, x.width, logits.factor(), x.max, x.sum, x.keep});
    });
    for (int p = 0; p < panels_; ++p) normalise(panel_[p]);
    each_block(t, isa, logits, [&](panel& x, float* s, int count, index_t first_key) {
      float* const distance = distances + (t.s.keys - 1 - (first_key + count - 1)) + x.first_row;
      simd::run_on(isa,
                   simd::slash_panel{s, count, x.width, x.rows, logits.factor(), x.max, x.norm, columns + first_key, distance, turns_});
    });
  }

 private:
  struct panel {
    float *q, *max, *sum, *keep, *norm;
    std::int32_t* position;
    int first_row, rows, width;
  };

  void lay_out(int key_dim, detail::carver& block) {
    constexpr int width = simd::most_panel_rows;
    s_ = block.take<float>(block_type::most * width), k_ = block.take<float>(block_type::copy_floats(key_dim));
    turns_ = block.take<float>(simd::slash_panel::turns * simd::slash_panel::turn_floats(block_type::most));
    for (panel& x : panel_) {
      x.q = block.take<float>(index_t{width} * key_dim), x.max = block.take<float>(width), x.sum = block.take<float>(width);
      x.keep = block.take<float>(width), x.norm = block.take<float>(width), x.position = block.take<std::int32_t>(width);
    }
  }

  void begin(task const& t, int first, host_logits const& logits, host_isa isa) {
    T const* q[simd::most_panel_rows];
    panel& x = panel_[panels_++];
    x.first_row = first, x.rows = min(t.rows - first, simd::most_panel_rows), x.width = simd::panel_width(x.rows);
    for (int r = 0; r < x.width; ++r) {
      x.max[r] = -infinity, x.sum[r] = 0;
      x.position[r] = static_cast<std::int32_t>(t.s.keys - t.rows + first + min(r, x.rows - 1));
      q[r] = t.q + (first + min(r, x.rows - 1)) * t.q_stride;
    }
    simd::run_on(isa, simd::pack_rows<T>{q, x.q, x.width, t.shape.key_dim, logits.query});
    for (int i = 0; i < simd::slash_panel::turns * simd::slash_panel::turn_floats(block_type::most); ++i) turns_[i] = 0;
  }

  /// Padding rows repeat a real one and count for nothing; so does a row that saw nothing.
  static void normalise(panel& x) {
    for (int r = 0; r < x.width; ++r) {
      x.norm[r] = r < x.rows && x.sum[r] > 0 ? 1 / x.sum[r] : 0;
      if (x.max[r] == -infinity) x.max[r] = 0;
    }
  }

  /// Logits of all keys for all panels, masked, block by block.
  template <class Use>
  void each_block(task const& t, host_isa isa, host_logits const& logits, Use const& use) {
    block_type keys{t.kv, t.s, t.b, t.kv_head, t.shape, isa, k_, nullptr};
    auto const full = [&] {
      index_t const first_key = keys.keys()[0];
      for (int p = 0; p < panels_; ++p) {
        panel& x = panel_[p];
        int const seen = t.causal ? static_cast<int>(min<index_t>(keys.count(), x.position[x.rows - 1] + 1 - first_key)) : keys.count();
        if (seen <= 0) continue;
        score(t, isa, logits, keys, seen, x, p == 0);
        use(x, s_, seen, first_key);
      }
    };
    keys.add({.begin = 0, .end = t.s.keys}, full);
    keys.flush(full);
  }

  void score(task const& t, host_isa isa, host_logits const& logits, block_type const& keys, int count, panel const& x, bool first) {
    simd::run_on(isa, simd::score_panel{x.q, keys.k(0, count), s_, x.width, t.shape.key_dim, first ? keys.next_k() : simd::coming_rows{}});
    if (logits.cap > 0) simd::run_on(isa, simd::soft_cap_panel{s_, count * x.width, logits.cap, logits.cap_scale});
    if (t.causal && keys.keys()[count - 1] > x.position[0])
      simd::run_on(isa, simd::mask_panel{s_, keys.keys(), count, x.width, x.position, x.position, true, {}, ~std::uint64_t{0}});
  }

  float *s_ = nullptr, *k_ = nullptr, *turns_ = nullptr;
  panel panel_[task::most_rows / simd::most_panel_rows]{};
  int panels_ = 0;
};

/// Bytes of scratch for one call, aligned to 64.
template <class T, class Kv>
std::size_t host_slash_scratch_bytes(int key_dim) {
  return slash_summer<T, Kv>::scratch_bytes(key_dim);
}

/// Runs a slash_summer: see there for what is written.
template <class T, class Kv>
void host_slash_sums(last_queries<T, Kv> const& t, host_isa isa, float* columns, float* distances, std::byte* scratch) {
  slash_summer<T, Kv>{}.run(t, isa, columns, distances, scratch);
}

}  // namespace lacuna
