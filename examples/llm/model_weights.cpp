#include "model_weights.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "dequantize.hpp"
#include "error.hpp"

namespace llm {
namespace {

std::string shape_text(std::uint64_t rows, std::uint64_t columns) {
  return "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
}

/// Hands out tensors of the expected shape and gathers the expansions to do, so that they run as one parallel loop.
class tensor_loader {
 public:
  explicit tensor_loader(gguf_view const& file) : file_(file) {}

  gguf_tensor const& take(std::string const& name, std::uint64_t rows, std::uint64_t columns) {
    auto const* const tensor = file_.find_tensor(name);
    if (tensor == nullptr) throw error("tensor " + name + " is missing, expected one of shape " + shape_text(rows, columns));
    if (tensor->extents[0] != columns || tensor->rows() != rows) {
      throw error("tensor " + name + " has shape " + shape_text(tensor->rows(), tensor->extents[0]) + ", expected " +
                  shape_text(rows, columns));
    }
    taken_.insert(tensor->name);
    return *tensor;
  }

  bool has(std::string const& name) const { return file_.find_tensor(name) != nullptr; }

  void expand(gguf_tensor const& tensor, float* out) { jobs_.push_back({&tensor, out}); }

  /// One matrix that holds the named tensors below each other, each with `columns` columns.
  matrix stack(std::vector<std::pair<std::string, std::uint64_t>> const& parts, std::uint64_t columns) {
    std::vector<gguf_tensor const*> tensors;
    std::uint64_t rows = 0;
    for (auto const& [name, part_rows] : parts) {
      tensors.push_back(&take(name, part_rows, columns));
      rows += part_rows;
    }
    matrix stacked{
        .data = float_buffer(rows * columns), .outer = static_cast<std::int64_t>(rows), .inner = static_cast<std::int64_t>(columns)};
    float* out = stacked.data.data();
    for (auto const* const tensor : tensors) {
      expand(*tensor, out);
      out += tensor->rows() * columns;
    }
    return stacked;
  }

  float_buffer vector(std::string const& name, std::uint64_t size) { return stack({{name, 1}}, size).data; }

  void refuse_unknown() const {
    for (auto const& [name, tensor] : file_.tensors()) {
      if (!taken_.contains(name)) throw error("tensor " + std::string(name) + " is not part of this architecture as this engine knows it");
    }
  }

  void run(lacuna::host_executor const& exec) const {
    exec.for_each(static_cast<std::int64_t>(jobs_.size()) * slices, 0, [&](std::int64_t task, std::byte*) {
      auto const& [tensor, out] = jobs_[static_cast<std::size_t>(task / slices)];
      auto const slice = static_cast<std::uint64_t>(task % slices);
      auto const begin = tensor->rows() * slice / slices;
      auto const end = tensor->rows() * (slice + 1) / slices;
      auto const columns = tensor->extents[0];
      dequantize(tensor->type, tensor->bytes.subspan(begin * tensor->row_bytes(), (end - begin) * tensor->row_bytes()),
                 {out + begin * columns, (end - begin) * columns});
    });
  }

 private:
  static constexpr std::int64_t slices = 16;  // of each tensor's rows
  struct job {
    gguf_tensor const* tensor;
    float* out;
  };

  gguf_view const& file_;
  std::set<std::string_view> taken_;
  std::vector<job> jobs_;
};

layer_weights load_layer(tensor_loader& loader, model_config const& config, int layer) {
  std::string const prefix = "blk." + std::to_string(layer) + ".";
  auto const embedding = static_cast<std::uint64_t>(config.embedding);
  auto const feed_forward = static_cast<std::uint64_t>(config.feed_forward);
  auto const q = static_cast<std::uint64_t>(config.q_size());
  auto const kv = static_cast<std::uint64_t>(config.kv_size());
  layer_weights weights;
  weights.attention_norm = loader.vector(prefix + "attn_norm.weight", embedding);
  weights.qkv = loader.stack({{prefix + "attn_q.weight", q}, {prefix + "attn_k.weight", kv}, {prefix + "attn_v.weight", kv}}, embedding);
  if (config.has_qkv_bias) {
    weights.qkv_bias = float_buffer(q + 2 * kv);
    loader.expand(loader.take(prefix + "attn_q.bias", 1, q), weights.qkv_bias.data());
    loader.expand(loader.take(prefix + "attn_k.bias", 1, kv), weights.qkv_bias.data() + q);
    loader.expand(loader.take(prefix + "attn_v.bias", 1, kv), weights.qkv_bias.data() + q + kv);
  }
  weights.attention_output = loader.stack({{prefix + "attn_output.weight", embedding}}, q);
  weights.feed_forward_norm = loader.vector(prefix + "ffn_norm.weight", embedding);
  weights.gate_up = loader.stack({{prefix + "ffn_gate.weight", feed_forward}, {prefix + "ffn_up.weight", feed_forward}}, embedding);
  weights.down = loader.stack({{prefix + "ffn_down.weight", embedding}}, feed_forward);
  return weights;
}

}  // namespace

model_weights::model_weights(gguf_view const& file, model_config const& config, lacuna::host_executor const& exec) {
  tensor_loader loader(file);
  auto const vocabulary = static_cast<std::uint64_t>(config.vocabulary);
  auto const embedding = static_cast<std::uint64_t>(config.embedding);
  embedding_ = loader.take("token_embd.weight", vocabulary, embedding);
  output_norm_ = loader.vector("output_norm.weight", embedding);
  output_ = loader.stack({{loader.has("output.weight") ? "output.weight" : "token_embd.weight", vocabulary}}, embedding);
  for (int layer = 0; layer < config.layers; ++layer) layers_.push_back(load_layer(loader, config, layer));
  loader.refuse_unknown();
  loader.run(exec);
}

void model_weights::embed(std::int64_t token, std::span<float> out) const {
  dequantize(embedding_.type, embedding_.bytes.subspan(static_cast<std::uint64_t>(token) * embedding_.row_bytes(), embedding_.row_bytes()),
             out);
}

}  // namespace llm
