#pragma once

#include <cstddef>
#include <vector>

#include "gguf.hpp"
#include "model_config.hpp"

namespace llm {

/// Tensors of a file that stand below each other in one matrix, or one after the other in one vector, still in the file's formats.
struct tensor_stack {
  std::vector<gguf_tensor const*> parts;
  std::size_t columns = 0;  // of a matrix

  std::size_t size() const;  // elements of all parts
};

/// One layer; matrices that read the same input are stacked into one product.
struct layer_tensors {
  tensor_stack attention_norm;     // [embedding]
  tensor_stack qkv;                // [q + k + v, embedding]
  tensor_stack qkv_bias;           // [q + k + v] or empty
  tensor_stack attention_output;   // [embedding, q]
  tensor_stack feed_forward_norm;  // [embedding]
  tensor_stack gate_up;            // [2 * feed_forward, embedding]
  tensor_stack down;               // [embedding, feed_forward]
};

/// All tensors of a model, which point into the file's directory.
struct model_tensors {
  gguf_tensor const* embedding;  // [vocabulary, embedding]
  tensor_stack output;           // [vocabulary, embedding]; the embedding itself if the file has no other
  tensor_stack output_norm;      // [embedding]
  std::vector<layer_tensors> layers;

  bool is_tied() const { return output.parts[0] == embedding; }
};

/// Throws llm::error naming a tensor that is missing, misshapen or unknown.
model_tensors find_tensors(gguf_view const& file, model_config const& config);

/// Expands rows [begin, end) of a tensor to fp32. [end - begin, columns]
void expand_rows(gguf_tensor const& tensor, std::uint64_t begin, std::uint64_t end, float* out);

}  // namespace llm
