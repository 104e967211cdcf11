#pragma once

#include <vector>

#include <lacuna/exec/host_executor.hpp>

#include "cublas_product.cuh"
#include "model_config.hpp"
#include "model_tensors.hpp"

namespace llm {

/// One layer, like layer_weights.
struct device_layer {
  device_buffer<float> attention_norm;
  device_matrix qkv;
  device_buffer<float> qkv_bias;  // or empty
  device_matrix attention_output;
  device_buffer<float> feed_forward_norm;
  device_matrix gate_up;
  device_matrix down;
};

/// A model's weights in device memory. Matrices are expanded to bf16, which is what tensor cores multiply at full rate: the values come
/// from 4 to 8 bits, so rounding them to bf16's 8 adds less than quantising them took away, while expanding them on the fly would need a
/// product kernel for each format. Norms and biases, which are small and added or multiplied alone, stay fp32.
class device_weights {
 public:
  /// `host` expands slice by slice, so host memory stays small. Throws what find_tensors throws, and lacuna::cuda_error.
  device_weights(gguf_view const& file, model_config const& config, lacuna::host_executor const& host, lacuna::cuda_executor const& exec);

  std::vector<device_layer> const& layers() const { return layers_; }
  float const* output_norm() const { return output_norm_.data(); }
  device_matrix const& output() const { return output_; }  // [vocabulary, embedding]

  /// [vocabulary, embedding]
  lacuna::bfloat16 const* embedding() const { return is_tied_ ? output_.data.data() : embedding_.data(); }

 private:
  bool is_tied_;
  device_buffer<lacuna::bfloat16> embedding_;  // unless it is tied to the output
  std::vector<device_layer> layers_;
  device_buffer<float> output_norm_;
  device_matrix output_;
};

}  // namespace llm
