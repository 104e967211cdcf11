#include "layered_engine.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>

#include "error.hpp"

namespace llm {
namespace {

using clock = std::chrono::steady_clock;

double seconds_since(clock::time_point begin) { return std::chrono::duration<double>(clock::now() - begin).count(); }

}  // namespace

/// Tokens on their way through all layers.
struct layered_engine::pass {
  std::span<token const> tokens;
  prefill_request const* request;  // null: dense, for answer tokens
  token_range range = {};
  std::int64_t kept_from = 0;  // first row of this pass whose final state is kept
  double done_before = 0;      // share of the prompt that earlier chunks have done
  double done_share = 1;
  prefill_result result = {};
  square_sums sums = {};     // of all layers
  double aside_seconds = 0;  // spent on measuring and observing
};

layered_engine::layered_engine(model_config config) : config_(std::move(config)) { check_head_size(config_.head_size); }

void layered_engine::reset(std::int64_t capacity) {
  make_room(capacity);
  capacity_ = capacity;
  size_ = 0;
  kept_rows_ = 0;
}

void layered_engine::check_tokens(std::span<token const> tokens) const {
  if (tokens.empty()) throw error("no tokens to read");
  auto const room = capacity_ - size_;
  if (static_cast<std::int64_t>(tokens.size()) > room) {
    throw error(std::to_string(tokens.size()) + " tokens do not fit, there is room for " + std::to_string(room));
  }
  for (token const id : tokens) {
    if (id < 0 || id >= config_.vocabulary) {
      throw error("token " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(config_.vocabulary));
    }
  }
}

prefill_result layered_engine::prefill(std::span<token const> tokens, prefill_request const& request) {
  check_tokens(tokens);
  auto const total = static_cast<std::int64_t>(tokens.size());
  auto const chunk = request.chunk > 0 ? std::min(request.chunk, total) : total;
  kept_rows_ = 0;
  make_room_to_keep(std::min(request.kept_rows, total));
  begin_prompt(request.pattern, total);
  synchronize();
  auto const begin = clock::now();
  pass state{.tokens = {}, .request = &request};
  for (std::int64_t first = 0; first < total; first += chunk) {
    auto const rows = std::min(chunk, total - first);
    state.tokens = tokens.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(rows));
    state.kept_from = std::max<std::int64_t>(total - request.kept_rows - first, 0);
    state.done_before = static_cast<double>(first) / static_cast<double>(total);
    state.done_share = static_cast<double>(rows) / static_cast<double>(total);
    run_pass(state);
  }
  synchronize();
  if (state.sums.reference > 0) state.result.output_error = std::sqrt(state.sums.difference / state.sums.reference);
  state.result.seconds = seconds_since(begin) - state.aside_seconds;
  return state.result;
}

void layered_engine::decode(std::span<token const> tokens) {
  check_tokens(tokens);
  kept_rows_ = 0;
  make_room_to_keep(1);
  pass state{.tokens = tokens, .request = nullptr, .kept_from = static_cast<std::int64_t>(tokens.size()) - 1};
  run_pass(state);
}

void layered_engine::run_pass(pass& state) {
  auto const rows = static_cast<std::int64_t>(state.tokens.size());
  state.range = {.position = size_, .rows = rows};
  embed(state.tokens);
  for (int layer = 0; layer < config_.layers; ++layer) run_layer(layer, state);
  if (auto const kept = rows - state.kept_from; kept > 0) {
    keep(state.kept_from, kept, kept_rows_);
    kept_rows_ += kept;
  }
  size_ += rows;
}

void layered_engine::run_layer(int layer, pass& state) {
  project(layer, state.range);
  if (state.request == nullptr) {
    attend_densely(layer, state.range);
  } else {
    attend(layer, state.range, state.request->pattern);
    measure(layer, state);
  }
  bool const is_last = layer + 1 == config_.layers;
  finish_layer(layer, state.range.rows, is_last ? std::min(state.kept_from, state.range.rows) : 0);
  if (state.request != nullptr && state.request->on_progress) {
    keep_pace();
    state.request->on_progress(state.done_before + state.done_share * (layer + 1) / config_.layers);
  }
}

void layered_engine::measure(int layer, pass& state) {
  auto const& request = *state.request;
  if (request.compare == comparison::none && !request.observe) return;
  synchronize();
  auto const begin = clock::now();
  if (request.compare == comparison::with_dense) {
    auto const pairs = count_pairs(layer, state.range, request.pattern);
    state.result.pairs.visited += pairs.visited;
    state.result.pairs.total += pairs.total;
    if (request.pattern.kind != pattern_kind::dense) {
      auto const sums = compare_with_dense(layer, state.range);
      state.sums.difference += sums.difference;
      state.sums.reference += sums.reference;
    }
  }
  if (request.observe) show(layer, state.range, request.observe);
  synchronize();
  state.aside_seconds += seconds_since(begin);
}

token layered_engine::next() {
  if (kept_rows_ == 0) throw error("no tokens have been read yet");
  return next_of(kept_rows_ - 1);
}

std::vector<engine::row_result> layered_engine::score(std::span<token const> targets) {
  auto const rows = static_cast<std::int64_t>(targets.size());
  if (rows > kept_rows_) throw error(std::to_string(rows) + " rows to score, but only " + std::to_string(kept_rows_) + " were kept");
  return score_kept(targets);
}

}  // namespace llm
