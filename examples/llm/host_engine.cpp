#include "host_engine.hpp"

#include <algorithm>

#include "matrix_product.hpp"

namespace llm {
namespace {

constexpr std::int64_t tile_rows = 256;  // of a product: enough to hide that BLAS repacks the weights for each tile
constexpr std::int64_t few_rows = 32;    // up to here, reading the weights is the cost, and each thread reads its share of them once
constexpr std::int64_t logit_rows = 64;  // at a time: a vocabulary's worth of floats each

/// Makes the buffer hold at least `size` floats; contents may be lost.
void fit(float_buffer& buffer, std::int64_t size) {
  if (buffer.size() < static_cast<std::size_t>(size)) buffer = float_buffer(static_cast<std::size_t>(size));
}

}  // namespace

/// Some rows of the pass that go through a step together.
struct host_engine::tile {
  std::int64_t first;
  std::int64_t rows;
  float* scratch;  // scratch_floats(rows)
  bool is_alone;   // no other tile runs at the same time, so its products may use all threads
};

host_engine::host_engine(gguf_view const& file, lacuna::host_executor const& exec)
    : layered_engine(read_config(file)), exec_(exec), weights_(file, config(), exec), attention_(exec) {
  keep_blas_single_threaded();
}

void host_engine::make_room(std::int64_t tokens) {
  pattern_ = {.kind = pattern_kind::dense};
  positions_.reset();
  if (cache_ && cache_->capacity() >= tokens) return;
  cache_.reset();
  cache_.emplace(config(), tokens, [](std::size_t size) { return float_buffer(size); });
  rope_ = rope_table(tokens, config().head_size, config().rope_base, config().pairs);
}

void host_engine::begin_prompt(pattern_spec const& pattern, std::int64_t tokens) {
  pattern_ = pattern;
  positions_.reset();
  if (sets_positions(pattern)) positions_.emplace(config(), pattern, tokens, cache_->capacity());
}

layer_place host_engine::place_of(int layer) const { return positions_ ? positions_->place_of(layer) : layer_place{}; }

void host_engine::make_room_to_keep(std::int64_t rows) { fit(kept_, rows * config().embedding); }

attention_tensors host_engine::tensors_of(int layer, token_range range) {
  return {.q = {q_.data(), 1, range.rows, config().query_heads, config().head_size},
          .k = cache_->keys(layer, range.end()),
          .v = cache_->values(layer, range.end()),
          .out = {out_.data(), 1, range.rows, config().query_heads, config().head_size}};
}

void host_engine::project(int layer, token_range range) {
  for_each_tile(range.rows, [&](tile const& place) { project_tile(layer, place, range.position); });
}

void host_engine::attend(int layer, token_range range, pattern_spec const& pattern) {
  attention_.prefill(pattern, tensors_of(layer, range), place_of(layer));
}

void host_engine::attend_densely(int layer, token_range range) { attention_.decode(tensors_of(layer, range), pattern_, place_of(layer)); }

void host_engine::finish_layer(int layer, std::int64_t rows, std::int64_t first_needed) {
  for_each_tile(rows, [&](tile const& place) {
    if (place.first + place.rows > first_needed) finish_tile(layer, place);
  });
}

lacuna::pair_count host_engine::count_pairs(int layer, token_range range, pattern_spec const& pattern) {
  return attention_.count(pattern, tensors_of(layer, range), place_of(layer));
}

layered_engine::square_sums host_engine::compare_with_dense(int layer, token_range range) {
  auto reference = tensors_of(layer, range);
  auto const size = static_cast<std::size_t>(reference.out.size());
  float_buffer dense(size);
  reference.out.data = dense.data();
  if (positions_) {
    attention_.prefill({.kind = pattern_kind::dense_ntk}, reference, positions_->unscaled_place());
  } else {
    attention_.prefill({.kind = pattern_kind::dense}, reference);
  }
  square_sums sums{};
  for (std::size_t i = 0; i < size; ++i) {
    double const expected = dense.data()[i];
    double const difference = out_.data()[i] - expected;
    sums.difference += difference * difference;
    sums.reference += expected * expected;
  }
  return sums;
}

void host_engine::show(int layer, token_range range, layer_observer const& observe) { observe(layer, tensors_of(layer, range)); }

std::size_t host_engine::scratch_floats(std::int64_t rows) const {
  auto const widest = std::max(config().qkv_size(), 2 * config().feed_forward);
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(config().embedding + widest);
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
  auto const width = static_cast<std::size_t>(config().embedding);
  auto const rows = static_cast<std::int64_t>(tokens.size());
  fit(x_, rows * config().embedding);
  fit(q_, rows * config().q_size());
  fit(out_, rows * config().q_size());
  exec_.for_each((rows + tile_rows - 1) / tile_rows, 0, [&](std::int64_t i, std::byte*) {
    for (auto row = i * tile_rows; row < std::min(rows, (i + 1) * tile_rows); ++row) {
      weights_.embed(tokens[static_cast<std::size_t>(row)], {x_.data() + row * config().embedding, width});
    }
  });
}

void host_engine::normalise(float const* x, float_buffer const& weight, std::int64_t rows, float* out) const {
  auto const width = static_cast<std::size_t>(config().embedding);
  for (std::int64_t row = 0; row < rows; ++row, x += width, out += width)
    rms_norm({x, width}, weight.span(), config().norm_epsilon, {out, width});
}

void host_engine::project_tile(int layer, tile const& place, std::int64_t position) {
  auto const& weights = weights_.layers()[static_cast<std::size_t>(layer)];
  auto const width = config().embedding;
  auto const wide = config().qkv_size();
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
  auto const dim = config().head_size;
  auto const tokens = position + place.first + place.rows;
  auto const keys = cache_->keys(layer, tokens);
  auto const values = cache_->values(layer, tokens);
  for (auto row = place.first; row < place.first + place.rows; ++row, qkv += config().qkv_size()) {
    auto const at = position + row;
    for (int head = 0; !positions_ && head < config().query_heads + config().kv_heads; ++head) rope_.rotate(at, qkv + head * dim);
    std::copy_n(qkv, config().q_size(), q_.data() + row * config().q_size());
    for (int head = 0; head < config().kv_heads; ++head) {
      std::copy_n(qkv + config().q_size() + head * dim, dim, keys.row(0, at, head));
      std::copy_n(qkv + config().q_size() + config().kv_size() + head * dim, dim, values.row(0, at, head));
    }
  }
}

void host_engine::finish_tile(int layer, tile const& place) {
  auto const& weights = weights_.layers()[static_cast<std::size_t>(layer)];
  auto const width = config().embedding;
  auto const inner = static_cast<std::size_t>(config().feed_forward);
  auto const wide = 2 * config().feed_forward;
  row_block<float> const x{x_.data() + place.first * width, width};
  row_block<float const> const attended{out_.data() + place.first * config().q_size(), config().q_size()};
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

void host_engine::keep(std::int64_t first, std::int64_t rows, std::int64_t at) {
  auto const width = static_cast<std::size_t>(config().embedding);
  for (std::int64_t i = 0; i < rows; ++i) {
    rms_norm({x_.data() + (first + i) * config().embedding, width}, weights_.output_norm(), config().norm_epsilon,
             {kept_.data() + (at + i) * config().embedding, width});
  }
}

float_buffer host_engine::logits_of(std::int64_t first, std::int64_t rows) const {
  float_buffer logits(static_cast<std::size_t>(rows * config().vocabulary));
  row_block<float const> const x{kept_.data() + first * config().embedding, config().embedding};
  multiply_by_columns({.x = x, .rows = rows, .w = weights_.output(), .y = {logits.data(), config().vocabulary}}, exec_);
  return logits;
}

token host_engine::next_of(std::int64_t kept_row) { return static_cast<token>(index_of_largest(logits_of(kept_row, 1).span())); }

std::vector<engine::row_result> host_engine::score_kept(std::span<token const> targets) {
  auto const rows = static_cast<std::int64_t>(targets.size());
  std::vector<row_result> results(targets.size());
  auto const vocabulary = static_cast<std::size_t>(config().vocabulary);
  for (std::int64_t first = 0; first < rows; first += logit_rows) {
    auto const count = std::min(logit_rows, rows - first);
    auto const logits = logits_of(first, count);
    exec_.for_each(count, 0, [&](std::int64_t i, std::byte*) {
      std::span<float const> const row{logits.data() + i * config().vocabulary, vocabulary};
      auto const at = static_cast<std::size_t>(first + i);
      results[at] = {static_cast<token>(index_of_largest(row)), cross_entropy(row, targets[at])};
    });
  }
  return results;
}

}  // namespace llm
