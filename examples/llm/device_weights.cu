#include "device_weights.cuh"

#include <algorithm>

#include "float_buffer.hpp"
#include "layer_bodies.hpp"

namespace llm {
namespace {

using lacuna::bfloat16;

/// Brings tensors to the device through one fp32 slice in host memory and one in device memory.
class uploader {
 public:
  uploader(lacuna::host_executor const& host, lacuna::cuda_executor const& exec) : host_(host), exec_(exec) {}

  device_matrix matrix(tensor_stack const& stack) {
    return {.data = buffer<bfloat16>(stack),
            .outer = static_cast<std::int64_t>(stack.size() / stack.columns),
            .inner = static_cast<std::int64_t>(stack.columns)};
  }

  device_buffer<float> vector(tensor_stack const& stack) { return buffer<float>(stack); }

  template <class T>
  device_buffer<T> buffer(tensor_stack const& stack) {
    device_buffer<T> values(exec_, stack.size());
    T* out = values.data();
    for (auto const* const part : stack.parts) {
      upload(*part, out);
      out += part->rows() * part->extents[0];
    }
    return values;
  }

 private:
  static constexpr std::uint64_t slice_floats = 1U << 24;

  template <class T>
  void upload(gguf_tensor const& tensor, T* out) {
    auto const columns = tensor.extents[0];
    auto const step = std::max<std::uint64_t>(slice_floats / columns, 1);
    for (std::uint64_t row = 0; row < tensor.rows(); row += step) {
      auto const end = std::min(row + step, tensor.rows());
      auto const size = (end - row) * columns;
      expand(tensor, row, end);
      device_slice_.fit(exec_, static_cast<std::int64_t>(size));
      exec_.copy(device_slice_.data(), slice_.data(), size * sizeof(float)).or_throw();
      convert_elements<float, T> const body{device_slice_.data(), out + row * columns, static_cast<std::int64_t>(size)};
      exec_.launch({body.blocks(), body_team_size}, body).or_throw();
      exec_.synchronize().or_throw();  // the slices are free again
    }
  }

  void expand(gguf_tensor const& tensor, std::uint64_t begin, std::uint64_t end) {
    auto const columns = tensor.extents[0];
    if (slice_.size() < (end - begin) * columns) slice_ = float_buffer((end - begin) * columns);
    auto const parts = std::min<std::uint64_t>(end - begin, 4 * static_cast<std::uint64_t>(host_.threads()));
    host_.for_each(static_cast<std::int64_t>(parts), 0, [&](std::int64_t i, std::byte*) {
      auto const part = static_cast<std::uint64_t>(i);
      auto const from = (end - begin) * part / parts;
      auto const to = (end - begin) * (part + 1) / parts;
      expand_rows(tensor, begin + from, begin + to, slice_.data() + from * columns);
    });
  }

  lacuna::host_executor host_;
  lacuna::cuda_executor exec_;
  float_buffer slice_;
  device_buffer<float> device_slice_;
};

device_layer upload_layer(uploader& device, layer_tensors const& tensors) {
  return {.attention_norm = device.vector(tensors.attention_norm),
          .qkv = device.matrix(tensors.qkv),
          .qkv_bias = device.vector(tensors.qkv_bias),
          .attention_output = device.matrix(tensors.attention_output),
          .feed_forward_norm = device.vector(tensors.feed_forward_norm),
          .gate_up = device.matrix(tensors.gate_up),
          .down = device.matrix(tensors.down)};
}

}  // namespace

device_weights::device_weights(gguf_view const& file, model_config const& config, lacuna::host_executor const& host,
                               lacuna::cuda_executor const& exec) {
  auto const tensors = find_tensors(file, config);
  uploader device(host, exec);
  is_tied_ = tensors.is_tied();
  if (!is_tied_) embedding_ = device.buffer<bfloat16>({.parts = {tensors.embedding}, .columns = tensors.output.columns});
  output_ = device.matrix(tensors.output);
  output_norm_ = device.vector(tensors.output_norm);
  for (auto const& layer : tensors.layers) layers_.push_back(upload_layer(device, layer));
}

}  // namespace llm
