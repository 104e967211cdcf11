#include "cuda_engine.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "cuda_attention.cuh"
#include "cuda_stream.cuh"
#include "device_weights.cuh"
#include "error.hpp"
#include "kv_cache.hpp"
#include "layer_bodies.hpp"
#include "layered_engine.hpp"

namespace llm {
namespace {

using lacuna::bfloat16;

constexpr std::int64_t block_rows = 4096;    // of a product: fills the GPU, and bounds the memory of what stands between two products
constexpr std::int64_t logit_rows = 256;     // at a time: a vocabulary's worth of floats each
constexpr std::int64_t square_parts = 1024;  // partial sums

/// What products and attention read is bf16; residual stream, sums, norms, RoPE and softmax are fp32. So mean losses move by 0.0015
/// (SmolLM2) and 0.003 (Qwen) from fp32 ones, and no product needs more.
class cuda_engine : public layered_engine {
 public:
  cuda_engine(gguf_view const& file, lacuna::host_executor const& host)
      : layered_engine(read_config(file)),
        exec_(stream_.get()),
        cublas_(stream_.get()),
        weights_(file, config(), host, exec_),
        attention_(exec_) {}

  bool needs_warm_up() const override { return true; }  // kernels are loaded and memory grows when first asked for

 private:
  void make_room(std::int64_t tokens) override;
  void make_room_to_keep(std::int64_t rows) override { kept_.fit(exec_, rows * config().embedding); }
  void embed(std::span<token const> tokens) override;
  void project(int layer, token_range range) override;
  void attend(int layer, token_range range, pattern_spec const& pattern) override { attention_.prefill(pattern, tensors_of(layer, range)); }
  void attend_densely(int layer, token_range range) override { attention_.decode(tensors_of(layer, range)); }
  void finish_layer(int layer, std::int64_t rows, std::int64_t first_needed) override;
  void keep(std::int64_t first, std::int64_t rows, std::int64_t at) override;
  lacuna::pair_count count_pairs(int layer, token_range range, pattern_spec const& pattern) override;
  square_sums compare_with_dense(int layer, token_range range) override;
  void show(int layer, token_range range, layer_observer const& observe) override;
  token next_of(std::int64_t kept_row) override;
  std::vector<row_result> score_kept(std::span<token const> targets) override;
  void synchronize() override { exec_.synchronize().or_throw(); }
  void keep_pace() override { pace_.mark_and_wait_for_last(); }

  template <class Body>
  void launch(Body const& body) const {
    exec_.launch({body.blocks(), body_team_size}, body).or_throw();
  }

  device_tensors tensors_of(int layer, token_range range);
  void make_tables(std::int64_t positions);
  void normalise(float const* x, float const* weight, std::int64_t rows, bfloat16* out) const;
  void finish_rows(int layer, std::int64_t first, std::int64_t rows);
  std::vector<scored_row> score_block(std::int64_t first, std::int64_t rows, std::int32_t const* targets);

  cuda_stream stream_;
  lacuna::cuda_executor exec_;
  cublas cublas_;
  pace_keeper pace_{stream_.get()};
  device_weights weights_;
  cuda_attention attention_;
  std::optional<kv_cache<bfloat16, device_buffer<bfloat16>>> cache_;
  device_buffer<float> cosines_, sines_;                // [positions, head size / 2]
  device_buffer<std::int32_t> ids_;                     // [rows]
  device_buffer<float> x_;                              // [rows, embedding], the residual stream of the tokens being read
  device_buffer<bfloat16> q_;                           // [rows, query heads, head size]
  device_buffer<bfloat16> out_;                         // like q
  device_buffer<bfloat16> dense_;                       // like q, to compare with
  device_buffer<bfloat16> normed_;                      // [block_rows, embedding]
  device_buffer<float> wide_;                           // [block_rows, qkv or 2 * feed_forward]
  device_buffer<bfloat16> gated_;                       // [block_rows, feed_forward]
  device_buffer<bfloat16> kept_;                        // [kept rows, embedding], normed
  device_buffer<float> logits_;                         // [logit_rows, vocabulary]
  device_buffer<scored_row> scored_;                    // [logit_rows]
  device_buffer<sum_squares<bfloat16>::sums> squares_;  // [square_parts]
};

void cuda_engine::make_room(std::int64_t tokens) {
  if (cache_ && cache_->capacity() >= tokens) return;
  cache_.reset();
  cache_.emplace(config(), tokens, [&](std::size_t size) { return device_buffer<bfloat16>(exec_, size); });
  make_tables(tokens);
}

void cuda_engine::make_tables(std::int64_t positions) {
  rope_table const table(positions, config().head_size, config().rope_base, config().pairs);
  auto const upload = [&](device_buffer<float>& to, std::span<float const> from) {
    to.fit(exec_, static_cast<std::int64_t>(from.size()));
    exec_.copy(to.data(), from.data(), from.size_bytes()).or_throw();
  };
  upload(cosines_, table.cosines());
  upload(sines_, table.sines());
  synchronize();
}

device_tensors cuda_engine::tensors_of(int layer, token_range range) {
  return {.q = {q_.data(), 1, range.rows, config().query_heads, config().head_size},
          .k = cache_->keys(layer, range.end()),
          .v = cache_->values(layer, range.end()),
          .out = {out_.data(), 1, range.rows, config().query_heads, config().head_size}};
}

void cuda_engine::embed(std::span<token const> tokens) {
  auto const rows = static_cast<std::int64_t>(tokens.size());
  auto const height = std::min(rows, block_rows);
  ids_.fit(exec_, rows);
  x_.fit(exec_, rows * config().embedding);
  q_.fit(exec_, rows * config().q_size());
  out_.fit(exec_, rows * config().q_size());
  normed_.fit(exec_, height * config().embedding);
  wide_.fit(exec_, height * std::max(config().qkv_size(), 2 * config().feed_forward));
  gated_.fit(exec_, height * config().feed_forward);
  exec_.copy(ids_.data(), tokens.data(), tokens.size_bytes()).or_throw();
  launch(embed_rows<bfloat16>{ids_.data(), weights_.embedding(), rows, config().embedding, x_.data()});
}

void cuda_engine::normalise(float const* x, float const* weight, std::int64_t rows, bfloat16* out) const {
  launch(normalise_rows<bfloat16>{x, weight, config().norm_epsilon, rows, config().embedding, out});
}

void cuda_engine::project(int layer, token_range range) {
  auto const& weights = weights_.layers()[static_cast<std::size_t>(layer)];
  for (std::int64_t first = 0; first < range.rows; first += block_rows) {
    auto const rows = std::min(block_rows, range.rows - first);
    normalise(x_.data() + first * config().embedding, weights.attention_norm.data(), rows, normed_.data());
    cublas_.multiply({.x = normed_.data(), .rows = rows, .w = weights.qkv, .y = wide_.data()});
    launch(rotate_and_store<bfloat16>{.qkv = wide_.data(),
                                      .bias = weights.qkv_bias.data(),
                                      .cosines = cosines_.data(),
                                      .sines = sines_.data(),
                                      .pairs = config().pairs,
                                      .position = range.position + first,
                                      .rows = rows,
                                      .query_heads = config().query_heads,
                                      .kv_heads = config().kv_heads,
                                      .head_size = config().head_size,
                                      .q = q_.data() + first * config().q_size(),
                                      .keys = cache_->keys(layer, range.end()),
                                      .values = cache_->values(layer, range.end())});
  }
}

void cuda_engine::finish_layer(int layer, std::int64_t rows, std::int64_t first_needed) {
  for (auto first = first_needed; first < rows; first += block_rows) finish_rows(layer, first, std::min(block_rows, rows - first));
}

void cuda_engine::finish_rows(int layer, std::int64_t first, std::int64_t rows) {
  auto const& weights = weights_.layers()[static_cast<std::size_t>(layer)];
  float* const x = x_.data() + first * config().embedding;
  cublas_.multiply(
      {.x = out_.data() + first * config().q_size(), .rows = rows, .w = weights.attention_output, .y = x, .result = product_result::add});
  normalise(x, weights.feed_forward_norm.data(), rows, normed_.data());
  cublas_.multiply({.x = normed_.data(), .rows = rows, .w = weights.gate_up, .y = wide_.data()});
  launch(gate_rows<bfloat16>{wide_.data(), rows, config().feed_forward, gated_.data()});
  cublas_.multiply({.x = gated_.data(), .rows = rows, .w = weights.down, .y = x, .result = product_result::add});
}

void cuda_engine::keep(std::int64_t first, std::int64_t rows, std::int64_t at) {
  normalise(x_.data() + first * config().embedding, weights_.output_norm(), rows, kept_.data() + at * config().embedding);
}

lacuna::pair_count cuda_engine::count_pairs(int layer, token_range range, pattern_spec const& pattern) {
  return attention_.count(pattern, tensors_of(layer, range));
}

layered_engine::square_sums cuda_engine::compare_with_dense(int layer, token_range range) {
  auto reference = tensors_of(layer, range);
  dense_.fit(exec_, reference.out.size());
  squares_.fit(exec_, square_parts);
  reference.out.data = dense_.data();
  attention_.prefill({.kind = pattern_kind::dense}, reference);
  launch(sum_squares<bfloat16>{out_.data(), dense_.data(), reference.out.size(), square_parts, squares_.data()});
  square_sums sums{};
  for (auto const& part : fetch(exec_, squares_.data(), square_parts)) {
    sums.difference += part.difference;
    sums.reference += part.reference;
  }
  return sums;
}

/// A tensor's copy in host memory, expanded to fp32, with the same strides.
struct host_copy {
  float_buffer values;
  lacuna::tensor_view<float, 4> view;

  host_copy(lacuna::cuda_executor const& exec, lacuna::tensor_view<bfloat16 const, 4> const& from) {
    std::int64_t count = 1;
    for (int i = 0; i < 4; ++i) count += (from.extent[i] - 1) * from.stride[i];
    auto const elements = fetch(exec, from.data, count);
    values = float_buffer(elements.size());
    std::transform(elements.begin(), elements.end(), values.data(), [](bfloat16 value) { return static_cast<float>(value); });
    view = {values.data(), from.extent, from.stride};
  }
};

void cuda_engine::show(int layer, token_range range, layer_observer const& observe) {
  auto const on_device = tensors_of(layer, range);
  host_copy q(exec_, on_device.q), k(exec_, on_device.k), v(exec_, on_device.v), out(exec_, on_device.out);
  observe(layer, {.q = q.view, .k = k.view, .v = v.view, .out = out.view});
}

std::vector<scored_row> cuda_engine::score_block(std::int64_t first, std::int64_t rows, std::int32_t const* targets) {
  logits_.fit(exec_, rows * config().vocabulary);
  scored_.fit(exec_, rows);
  cublas_.multiply({.x = kept_.data() + first * config().embedding, .rows = rows, .w = weights_.output(), .y = logits_.data()});
  launch(score_rows{logits_.data(), targets, rows, config().vocabulary, scored_.data()});
  return fetch(exec_, scored_.data(), rows);
}

token cuda_engine::next_of(std::int64_t kept_row) { return score_block(kept_row, 1, nullptr)[0].next; }

std::vector<engine::row_result> cuda_engine::score_kept(std::span<token const> targets) {
  auto const rows = static_cast<std::int64_t>(targets.size());
  ids_.fit(exec_, rows);
  exec_.copy(ids_.data(), targets.data(), targets.size_bytes()).or_throw();
  std::vector<row_result> results;
  for (std::int64_t first = 0; first < rows; first += logit_rows) {
    auto const block = score_block(first, std::min(logit_rows, rows - first), ids_.data() + first);
    for (auto const& row : block) results.push_back({row.next, row.loss});
  }
  return results;
}

}  // namespace

std::string why_no_cuda() {
  try {
    lacuna::cuda_executor{nullptr};
    return {};
  } catch (lacuna::cuda_error const& failure) {
    return failure.what();
  }
}

std::unique_ptr<engine> make_cuda_engine(gguf_view const& file, lacuna::host_executor const& exec) {
  if (auto const reason = why_no_cuda(); !reason.empty()) throw error(reason);
  return std::make_unique<cuda_engine>(file, exec);
}

}  // namespace llm
