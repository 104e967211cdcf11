#pragma once

#include <optional>
#include <vector>

#include "extended_positions.hpp"
#include "float_buffer.hpp"
#include "kv_cache.hpp"
#include "layer_math.hpp"
#include "layered_engine.hpp"
#include "matrix_product.hpp"
#include "model_weights.hpp"

namespace llm {

/// The engine on the CPU: products by BLAS in blocks of rows, attention by lacuna, one attention call a layer, all in fp32.
class host_engine : public layered_engine {
 public:
  /// Throws llm::error if the file is not a model of a known architecture. The file's bytes must outlive the engine.
  host_engine(gguf_view const& file, lacuna::host_executor const& exec);

 private:
  struct tile;

  void make_room(std::int64_t tokens) override;
  void make_room_to_keep(std::int64_t rows) override;
  void begin_prompt(pattern_spec const& pattern, std::int64_t tokens) override;
  void embed(std::span<token const> tokens) override;
  void project(int layer, token_range range) override;
  void attend(int layer, token_range range, pattern_spec const& pattern) override;
  void attend_densely(int layer, token_range range) override;
  void finish_layer(int layer, std::int64_t rows, std::int64_t first_needed) override;
  void keep(std::int64_t first, std::int64_t rows, std::int64_t at) override;
  lacuna::pair_count count_pairs(int layer, token_range range, pattern_spec const& pattern) override;
  square_sums compare_with_dense(int layer, token_range range) override;
  void show(int layer, token_range range, layer_observer const& observe) override;
  token next_of(std::int64_t kept_row) override;
  std::vector<row_result> score_kept(std::span<token const> targets) override;

  attention_tensors tensors_of(int layer, token_range range);
  layer_place place_of(int layer) const;
  template <class Work>
  void for_each_tile(std::int64_t rows, Work const& work) const;
  std::size_t scratch_floats(std::int64_t rows) const;
  void multiply_in(tile const& place, matrix_product const& product) const;
  void project_tile(int layer, tile const& place, std::int64_t position);
  void normalise(float const* x, float_buffer const& weight, std::int64_t rows, float* out) const;
  void rotate_and_store(int layer, tile const& place, std::int64_t position, float* qkv);
  void finish_tile(int layer, tile const& place);
  float_buffer logits_of(std::int64_t first, std::int64_t rows) const;

  lacuna::host_executor exec_;
  model_weights weights_;
  attention attention_;
  std::optional<kv_cache<float, float_buffer>> cache_;
  rope_table rope_;
  pattern_spec pattern_{.kind = pattern_kind::dense};  // of the prompt
  std::optional<extended_positions> positions_;        // if the pattern sets them
  float_buffer x_;                                     // [rows, embedding], the residual stream of the tokens being read
  float_buffer q_;                                     // [rows, query heads, head size]
  float_buffer out_;                                   // like q
  float_buffer kept_;                                  // [kept rows, embedding], normed
};

}  // namespace llm
