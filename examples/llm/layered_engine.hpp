#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine.hpp"

namespace llm {

/// What engines on any machine have in common: prompts in chunks, a chunk layer by layer, which rows are kept for their logits, what is
/// counted and timed. A machine supplies the steps and may run them asynchronously, in order.
class layered_engine : public engine {
 public:
  /// Throws llm::error if attention is not built for the model's head size.
  explicit layered_engine(model_config config);

  model_config const& config() const final { return config_; }
  void reset(std::int64_t capacity) final;
  prefill_result prefill(std::span<token const> tokens, prefill_request const& request) final;
  void decode(std::span<token const> tokens) final;
  token next() final;
  std::vector<row_result> score(std::span<token const> targets) final;

 protected:
  /// Tokens that pass through the layers together.
  struct token_range {
    std::int64_t position;  // of the first
    std::int64_t rows;

    std::int64_t end() const { return position + rows; }
  };

  /// Sums over the attention output of a layer.
  struct square_sums {
    double difference;  // to dense attention
    double reference;   // of dense attention
  };

 private:
  struct pass;

  /// For keys and values, contents need not survive.
  virtual void make_room(std::int64_t tokens) = 0;
  virtual void make_room_to_keep(std::int64_t rows) = 0;
  /// A prompt of so many tokens comes, and is read with the pattern.
  virtual void begin_prompt(pattern_spec const&, std::int64_t) {}

  /// Starts the residual stream of these tokens.
  virtual void embed(std::span<token const> tokens) = 0;
  /// norm -> q, k, v -> RoPE -> keys and values of the layer
  virtual void project(int layer, token_range range) = 0;
  virtual void attend(int layer, token_range range, pattern_spec const& pattern) = 0;
  virtual void attend_densely(int layer, token_range range) = 0;  // few tokens
  /// attention output -> + residual -> norm -> SwiGLU -> + residual; rows before `first_needed` may be left out.
  virtual void finish_layer(int layer, std::int64_t rows, std::int64_t first_needed) = 0;
  /// Final norm of rows [first, first + rows), kept as rows `at` on.
  virtual void keep(std::int64_t first, std::int64_t rows, std::int64_t at) = 0;

  virtual lacuna::pair_count count_pairs(int layer, token_range range, pattern_spec const& pattern) = 0;
  virtual square_sums compare_with_dense(int layer, token_range range) = 0;
  virtual void show(int layer, token_range range, layer_observer const& observe) = 0;

  virtual token next_of(std::int64_t kept_row) = 0;
  virtual std::vector<row_result> score_kept(std::span<token const> targets) = 0;

  /// Waits for all steps so far.
  virtual void synchronize() {}
  /// Called after each layer, before progress is told: waits until at most this layer is unfinished.
  virtual void keep_pace() {}

  void check_tokens(std::span<token const> tokens) const;
  void run_pass(pass& state);
  void run_layer(int layer, pass& state);
  void measure(int layer, pass& state);

  model_config config_;
  std::int64_t capacity_ = 0;
  std::int64_t size_ = 0;       // tokens read
  std::int64_t kept_rows_ = 0;  // of the last prefill or decode
};

}  // namespace llm
