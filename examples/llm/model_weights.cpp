#include "model_weights.hpp"

#include <utility>

#include "model_tensors.hpp"

namespace llm {
namespace {

/// Gathers the expansions to do, so that they run as one parallel loop.
class expansion {
 public:
  float_buffer vector(tensor_stack const& stack) {
    float_buffer values(stack.size());
    float* out = values.data();
    for (auto const* const part : stack.parts) {
      jobs_.push_back({part, out});
      out += part->rows() * part->extents[0];
    }
    return values;
  }

  llm::matrix matrix(tensor_stack const& stack) {
    return {.data = vector(stack),
            .outer = static_cast<std::int64_t>(stack.size() / stack.columns),
            .inner = static_cast<std::int64_t>(stack.columns)};
  }

  void run(lacuna::host_executor const& exec) const {
    exec.for_each(static_cast<std::int64_t>(jobs_.size()) * slices, 0, [&](std::int64_t task, std::byte*) {
      auto const& [tensor, out] = jobs_[static_cast<std::size_t>(task / slices)];
      auto const slice = static_cast<std::uint64_t>(task % slices);
      auto const begin = tensor->rows() * slice / slices;
      auto const end = tensor->rows() * (slice + 1) / slices;
      expand_rows(*tensor, begin, end, out + begin * tensor->extents[0]);
    });
  }

 private:
  static constexpr std::int64_t slices = 16;  // of each tensor's rows
  struct job {
    gguf_tensor const* tensor;
    float* out;
  };

  std::vector<job> jobs_;
};

layer_weights expand_layer(expansion& work, layer_tensors const& tensors) {
  return {.attention_norm = work.vector(tensors.attention_norm),
          .qkv = work.matrix(tensors.qkv),
          .qkv_bias = work.vector(tensors.qkv_bias),
          .attention_output = work.matrix(tensors.attention_output),
          .feed_forward_norm = work.vector(tensors.feed_forward_norm),
          .gate_up = work.matrix(tensors.gate_up),
          .down = work.matrix(tensors.down)};
}

}  // namespace

model_weights::model_weights(gguf_view const& file, model_config const& config, lacuna::host_executor const& exec) {
  auto const tensors = find_tensors(file, config);
  expansion work;
  embedding_ = *tensors.embedding;
  output_norm_ = work.vector(tensors.output_norm);
  output_ = work.matrix(tensors.output);
  for (auto const& layer : tensors.layers) layers_.push_back(expand_layer(work, layer));
  work.run(exec);
}

void model_weights::embed(std::int64_t token, std::span<float> out) const {
  auto const row = static_cast<std::uint64_t>(token);
  expand_rows(embedding_, row, row + 1, out.data());
}

}  // namespace llm
