#pragma once

#include <span>
#include <vector>

#include <lacuna/exec/host_executor.hpp>

#include "float_buffer.hpp"
#include "gguf.hpp"
#include "matrix_product.hpp"
#include "model_config.hpp"

namespace llm {

/// One layer; matrices that read the same input are stacked into one product.
struct layer_weights {
  float_buffer attention_norm;     // [embedding]
  matrix qkv;                      // [q + k + v, embedding]
  float_buffer qkv_bias;           // [q + k + v] or empty
  matrix attention_output;         // [embedding, q]
  float_buffer feed_forward_norm;  // [embedding]
  matrix gate_up;                  // [2 * feed_forward, embedding]
  matrix down;                     // [embedding, feed_forward]
};

/// A model's weights, expanded to fp32: BLAS multiplies nothing smaller, and results then equal the fp32 reference.
/// The embedding stays quantised in the file's own bytes, since a prompt reads only a few of its rows.
class model_weights {
 public:
  /// Throws llm::error naming a tensor that is missing, misshapen or unknown. The file's bytes must outlive the weights.
  model_weights(gguf_view const& file, model_config const& config, lacuna::host_executor const& exec);

  std::vector<layer_weights> const& layers() const { return layers_; }
  std::span<float const> output_norm() const { return output_norm_.span(); }
  matrix const& output() const { return output_; }  // [vocabulary, embedding]

  /// Writes one token's embedding. [embedding]
  void embed(std::int64_t token, std::span<float> out) const;

 private:
  gguf_tensor embedding_;
  std::vector<layer_weights> layers_;
  float_buffer output_norm_;
  matrix output_;
};

}  // namespace llm
