#include "host_engine.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "error.hpp"
#include "matrix_product.hpp"

namespace llm {
namespace {

using clock = std::chrono::steady_clock;

double seconds_since(clock::time_point begin) { return std::chrono::duration<double>(clock::now() - begin).count(); }

constexpr std::int64_t tile_rows = 256;  // of a product: enough to hide that BLAS repacks the weights for each tile
constexpr std::int64_t few_rows = 32;    // up to here, reading the weights is the cost, and each thread reads its share of them once
constexpr std::int64_t logit_rows = 64;  // at a time: a vocabulary's worth of floats each

model_config read_checked_config(gguf_view const& file) {
  auto config = read_config(file);
  attention::check_head_size(config.head_size);
  return config;
}

}  // namespace

/// Some rows of the pass that go through a step together.
struct host_engine::tile {
  std::int64_t first;
  std::int64_t rows;
  float* scratch;  // scratch_floats(rows)
  bool is_alone;   // no other tile runs at the same time, so its products may use all threads
};

/// Tokens on their way through all layers.
struct host_engine::pass {
  std::span<token const> tokens;
  prefill_request const* request;  // null: dense, for answer tokens
  std::int64_t position;           // of the first token
  std::int64_t kept_from;          // first row of this pass whose final state is kept
  double done_before = 0;          // share of the prompt that earlier chunks have done
  double done_share = 1;
  prefill_result result = {};
  double difference = 0;  // sums of squares over the attention output of all layers
  double reference = 0;
  double aside_seconds = 0;  // spent on measuring and observing
};

host_engine::host_engine(gguf_view const& file, lacuna::host_executor const& exec)
    : config_(read_checked_config(file)), exec_(exec), weights_(file, config_, exec), attention_(exec) {
  keep_blas_single_threaded();
}

void host_engine::reset(std::int64_t capacity) {
  kept_.clear();
  if (!cache_ || cache_->capacity() < capacity) {
    cache_.reset();
    cache_.emplace(config_, capacity);
    rope_ = rope_table(capacity, config_.head_size, config_.rope_base, config_.pairs);
  }
  cache_->resize(0);
}

void host_engine::check_tokens(std::span<token const> tokens) const {
  if (tokens.empty()) throw error("no tokens to read");
  auto const room = cache_ ? cache_->capacity() - cache_->size() : 0;
  if (static_cast<std::int64_t>(tokens.size()) > room) {
    throw error(std::to_string(tokens.size()) + " tokens do not fit, there is room for " + std::to_string(room));
  }
  for (token const id : tokens) {
    if (id < 0 || id >= config_.vocabulary) {
      throw error("token " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(config_.vocabulary));
    }
  }
}

prefill_result host_engine::prefill(std::span<token const> tokens, prefill_request const& request) {
  check_tokens(tokens);
  kept_.clear();
  auto const begin = clock::now();
  auto const total = static_cast<std::int64_t>(tokens.size());
  auto const chunk = request.chunk > 0 ? std::min(request.chunk, total) : total;
  pass state{.tokens = {}, .request = &request, .position = 0, .kept_from = 0};
  for (std::int64_t first = 0; first < total; first += chunk) {
    auto const rows = std::min(chunk, total - first);
    state.tokens = tokens.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(rows));
    state.position = cache_->size();
    state.kept_from = std::max<std::int64_t>(total - request.kept_rows - first, 0);
    state.done_before = static_cast<double>(first) / static_cast<double>(total);
    state.done_share = static_cast<double>(rows) / static_cast<double>(total);
    run_pass(state);
  }
  if (state.reference > 0) state.result.output_error = std::sqrt(state.difference / state.reference);
  state.result.seconds = seconds_since(begin) - state.aside_seconds;
  return state.result;
}

void host_engine::decode(std::span<token const> tokens) {
  check_tokens(tokens);
  kept_.clear();
  pass state{.tokens = tokens, .request = nullptr, .position = cache_->size(), .kept_from = static_cast<std::int64_t>(tokens.size()) - 1};
  run_pass(state);
}

void host_engine::run_pass(pass& state) {
  auto const rows = static_cast<std::int64_t>(state.tokens.size());
  auto const fit = [&](float_buffer& buffer, int columns) {
    auto const size = static_cast<std::size_t>(rows * columns);
    if (buffer.size() < size) buffer = float_buffer(size);
  };
  fit(x_, config_.embedding);
  fit(q_, config_.q_size());
  fit(out_, config_.q_size());
  embed(state.tokens);
  for (int layer = 0; layer < config_.layers; ++layer) run_layer(layer, state);
  keep_rows(state);
  cache_->resize(state.position + rows);
}

void host_engine::run_layer(int layer, pass& state) {
  auto const rows = static_cast<std::int64_t>(state.tokens.size());
  for_each_tile(rows, [&](tile const& place) { project(layer, place, state.position); });
  attend(layer, state);
  bool const is_last = layer + 1 == config_.layers;
  for_each_tile(rows, [&](tile const& place) {
    if (is_last && place.first + place.rows <= state.kept_from) return;  // nobody reads what these rows become
    finish_layer(layer, place);
  });
  if (state.request != nullptr && state.request->on_progress) {
    state.request->on_progress(state.done_before + state.done_share * (layer + 1) / config_.layers);
  }
}

void host_engine::attend(int layer, pass& state) {
  auto const rows = static_cast<std::int64_t>(state.tokens.size());
  auto const keys = state.position + rows;
  attention_tensors const tensors{.q = {q_.data(), 1, rows, config_.query_heads, config_.head_size},
                                  .k = cache_->keys(layer, keys),
                                  .v = cache_->values(layer, keys),
                                  .out = {out_.data(), 1, rows, config_.query_heads, config_.head_size}};
  if (state.request == nullptr) return attention_.decode(tensors);
  attention_.prefill(state.request->pattern, tensors);
  auto const begin = clock::now();
  if (state.request->compare == comparison::with_dense) measure(tensors, state);
  if (state.request->observe) state.request->observe(layer, tensors);
  state.aside_seconds += seconds_since(begin);
}

void host_engine::measure(attention_tensors const& tensors, pass& state) {
  auto const pairs = attention_.count(state.request->pattern, tensors);
  state.result.pairs.visited += pairs.visited;
  state.result.pairs.total += pairs.total;
  if (state.request->pattern.kind == pattern_kind::dense) return;
  auto const size = static_cast<std::size_t>(tensors.q.size());
  float_buffer dense(size);
  auto reference = tensors;
  reference.out.data = dense.data();
  attention_.prefill({.kind = pattern_kind::dense}, reference);
  for (std::size_t i = 0; i < size; ++i) {
    double const difference = static_cast<double>(tensors.out.data[i]) - static_cast<double>(dense.data()[i]);
    state.difference += difference * difference;
    state.reference += static_cast<double>(dense.data()[i]) * static_cast<double>(dense.data()[i]);
  }
}

std::size_t host_engine::scratch_floats(std::int64_t rows) const {
  auto const widest = std::max(config_.qkv_size(), 2 * config_.feed_forward);
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(config_.embedding + widest);
}

template <class Work>
void host_engine::for_each_tile(std::int64_t rows, Work const& work) const {
  if (rows <= few_rows) {
    float_buffer scratch(scratch_floats(rows));
    return work(tile{.first = 0, .rows = rows, .scratch = scratch.data(), .is_alone = true});
  }
  auto const share = (rows + exec_.threads() - 1) / exec_.threads();
  auto const height = std::min(tile_rows, share);
  auto const tiles = (rows + height - 1) / height;
  exec_.for_each(tiles, scratch_floats(height) * sizeof(float), [&](std::int64_t i, std::byte* scratch) {
    work(tile{
        .first = i * height, .rows = std::min(height, rows - i * height), .scratch = reinterpret_cast<float*>(scratch), .is_alone = false});
  });
}

void host_engine::multiply_in(tile const& place, matrix_product const& product) const {
  if (place.is_alone) {
    multiply_by_columns(product, exec_);
  } else {
    multiply(product);
  }
}

void host_engine::embed(std::span<token const> tokens) {
  auto const width = static_cast<std::size_t>(config_.embedding);
  auto const rows = static_cast<std::int64_t>(tokens.size());
  exec_.for_each((rows + tile_rows - 1) / tile_rows, 0, [&](std::int64_t i, std::byte*) {
    for (auto row = i * tile_rows; row < std::min(rows, (i + 1) * tile_rows); ++row) {
      weights_.embed(tokens[static_cast<std::size_t>(row)], {x_.data() + row * config_.embedding, width});
    }
  });
}

void host_engine::normalise(float const* x, float_buffer const& weight, std::int64_t rows, float* out) const {
  auto const width = static_cast<std::size_t>(config_.embedding);
  for (std::int64_t row = 0; row < rows; ++row, x += width, out += width)
    rms_norm({x, width}, weight.span(), config_.norm_epsilon, {out, width});
}

/// norm -> q, k, v -> RoPE -> cache
void host_engine::project(int layer, tile const& place, std::int64_t position) {
  auto const& weights = weights_.layers()[static_cast<std::size_t>(layer)];
  auto const width = config_.embedding;
  auto const wide = config_.qkv_size();
  float* const normed = place.scratch;
  float* const qkv = normed + place.rows * width;
  normalise(x_.data() + place.first * width, weights.attention_norm, place.rows, normed);
  multiply_in(place, {.x = {normed, width}, .rows = place.rows, .w = weights.qkv, .y = {qkv, wide}});
  float const* const bias = weights.qkv_bias.data();
  for (std::int64_t row = 0; bias != nullptr && row < place.rows; ++row) {
    float* const values = qkv + row * wide;
    for (int i = 0; i < wide; ++i) values[i] += bias[i];
  }
  rotate_and_store(layer, place, position, qkv);
}

void host_engine::rotate_and_store(int layer, tile const& place, std::int64_t position, float* qkv) {
  auto const dim = config_.head_size;
  auto const tokens = position + place.first + place.rows;
  auto const keys = cache_->keys(layer, tokens);
  auto const values = cache_->values(layer, tokens);
  for (auto row = place.first; row < place.first + place.rows; ++row, qkv += config_.qkv_size()) {
    auto const at = position + row;
    for (int head = 0; head < config_.query_heads + config_.kv_heads; ++head) rope_.rotate(at, qkv + head * dim);
    std::copy_n(qkv, config_.q_size(), q_.data() + row * config_.q_size());
    for (int head = 0; head < config_.kv_heads; ++head) {
      std::copy_n(qkv + config_.q_size() + head * dim, dim, keys.row(0, at, head));
      std::copy_n(qkv + config_.q_size() + config_.kv_size() + head * dim, dim, values.row(0, at, head));
    }
  }
}

/// attention output -> + residual -> norm -> SwiGLU -> + residual
void host_engine::finish_layer(int layer, tile const& place) {
  auto const& weights = weights_.layers()[static_cast<std::size_t>(layer)];
  auto const width = config_.embedding;
  auto const inner = static_cast<std::size_t>(config_.feed_forward);
  auto const wide = 2 * config_.feed_forward;
  row_block<float> const x{x_.data() + place.first * width, width};
  row_block<float const> const attended{out_.data() + place.first * config_.q_size(), config_.q_size()};
  float* const normed = place.scratch;
  float* const gate_up = normed + place.rows * width;
  multiply_in(place, {.x = attended, .rows = place.rows, .w = weights.attention_output, .y = x, .result = product_result::add});
  normalise(x.data, weights.feed_forward_norm, place.rows, normed);
  multiply_in(place, {.x = {normed, width}, .rows = place.rows, .w = weights.gate_up, .y = {gate_up, wide}});
  for (std::int64_t row = 0; row < place.rows; ++row) {
    float* const gate = gate_up + row * wide;
    swiglu({gate, inner}, {gate + inner, inner});
  }
  multiply_in(place, {.x = {gate_up, wide}, .rows = place.rows, .w = weights.down, .y = x, .result = product_result::add});
}

void host_engine::keep_rows(pass const& state) {
  auto const width = static_cast<std::size_t>(config_.embedding);
  auto const rows = static_cast<std::int64_t>(state.tokens.size());
  for (auto row = state.kept_from; row < rows; ++row) {
    kept_.resize(kept_.size() + width);
    rms_norm({x_.data() + row * config_.embedding, width}, weights_.output_norm(), config_.norm_epsilon,
             {kept_.data() + kept_.size() - width, width});
  }
}

float_buffer host_engine::logits_of(std::int64_t first, std::int64_t rows) const {
  float_buffer logits(static_cast<std::size_t>(rows * config_.vocabulary));
  row_block<float const> const x{kept_.data() + first * config_.embedding, config_.embedding};
  multiply_by_columns({.x = x, .rows = rows, .w = weights_.output(), .y = {logits.data(), config_.vocabulary}}, exec_);
  return logits;
}

token host_engine::next() {
  auto const rows = static_cast<std::int64_t>(kept_.size()) / config_.embedding;
  if (rows == 0) throw error("no tokens have been read yet");
  auto const logits = logits_of(rows - 1, 1);
  return static_cast<token>(index_of_largest(logits.span()));
}

std::vector<engine::row_result> host_engine::score(std::span<token const> targets) {
  auto const rows = static_cast<std::int64_t>(targets.size());
  auto const kept = static_cast<std::int64_t>(kept_.size()) / config_.embedding;
  if (rows > kept) throw error(std::to_string(rows) + " rows to score, but only " + std::to_string(kept) + " were kept");
  std::vector<row_result> results(targets.size());
  auto const vocabulary = static_cast<std::size_t>(config_.vocabulary);
  for (std::int64_t first = 0; first < rows; first += logit_rows) {
    auto const count = std::min(logit_rows, rows - first);
    auto const logits = logits_of(first, count);
    exec_.for_each(count, 0, [&](std::int64_t i, std::byte*) {
      std::span<float const> const row{logits.data() + i * config_.vocabulary, vocabulary};
      auto const at = static_cast<std::size_t>(first + i);
      results[at] = {static_cast<token>(index_of_largest(row)), cross_entropy(row, targets[at])};
    });
  }
  return results;
}

}  // namespace llm
