#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine.hpp"
#include "float_buffer.hpp"
#include "kv_cache.hpp"
#include "layer_math.hpp"
#include "matrix_product.hpp"
#include "model_weights.hpp"

namespace llm {

/// The engine on the CPU: products by BLAS in blocks of rows, attention by lacuna, one attention call a layer.
class host_engine : public engine {
 public:
  /// Throws llm::error if the file is not a model of a known architecture. The file's bytes must outlive the engine.
  host_engine(gguf_view const& file, lacuna::host_executor const& exec);

  model_config const& config() const override { return config_; }
  void reset(std::int64_t capacity) override;
  prefill_result prefill(std::span<token const> tokens, prefill_request const& request) override;
  void decode(std::span<token const> tokens) override;
  token next() override;
  std::vector<row_result> score(std::span<token const> targets) override;

 private:
  struct tile;
  struct pass;

  void check_tokens(std::span<token const> tokens) const;
  void run_pass(pass& state);
  void run_layer(int layer, pass& state);
  void attend(int layer, pass& state);
  void measure(attention_tensors const& tensors, pass& state);
  void keep_rows(pass const& state);

  template <class Work>
  void for_each_tile(std::int64_t rows, Work const& work) const;
  std::size_t scratch_floats(std::int64_t rows) const;
  void multiply_in(tile const& place, matrix_product const& product) const;
  void embed(std::span<token const> tokens);
  void project(int layer, tile const& place, std::int64_t position);
  void normalise(float const* x, float_buffer const& weight, std::int64_t rows, float* out) const;
  void rotate_and_store(int layer, tile const& place, std::int64_t position, float* qkv);
  void finish_layer(int layer, tile const& place);
  float_buffer logits_of(std::int64_t first, std::int64_t rows) const;

  model_config config_;
  lacuna::host_executor exec_;
  model_weights weights_;
  attention attention_;
  std::optional<kv_cache> cache_;
  rope_table rope_;
  float_buffer x_;           // [rows, embedding], the residual stream of the tokens being read
  float_buffer q_;           // [rows, query heads, head size]
  float_buffer out_;         // like q
  std::vector<float> kept_;  // [kept rows, embedding], normed
};

}  // namespace llm
