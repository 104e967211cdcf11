#include "model_tensors.hpp"

#include <set>
#include <string>
#include <utility>

#include "dequantize.hpp"
#include "error.hpp"
#include "quoted.hpp"

namespace llm {
namespace {

std::string shape_text(std::uint64_t rows, std::uint64_t columns) {
  return "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
}

/// Hands out tensors of the expected shape and remembers which.
class tensor_finder {
 public:
  explicit tensor_finder(gguf_view const& file) : file_(file) {}

  gguf_tensor const* take(std::string const& name, std::uint64_t rows, std::uint64_t columns) {
    auto const* const tensor = file_.find_tensor(name);
    if (tensor == nullptr) throw error("tensor " + name + " is missing, expected one of shape " + shape_text(rows, columns));
    if (tensor->extents[0] != columns || tensor->rows() != rows) {
      throw error("tensor " + name + " has shape " + shape_text(tensor->rows(), tensor->extents[0]) + ", expected " +
                  shape_text(rows, columns));
    }
    taken_.insert(tensor->name);
    return tensor;
  }

  bool has(std::string const& name) const { return file_.find_tensor(name) != nullptr; }

  tensor_stack matrix(std::vector<std::pair<std::string, std::uint64_t>> const& parts, std::uint64_t columns) {
    tensor_stack stack{.parts = {}, .columns = columns};
    for (auto const& [name, rows] : parts) stack.parts.push_back(take(name, rows, columns));
    return stack;
  }

  tensor_stack vector(std::vector<std::pair<std::string, std::uint64_t>> const& parts) {
    tensor_stack stack;
    for (auto const& [name, size] : parts) stack.parts.push_back(take(name, 1, size));
    return stack;
  }

  void refuse_unknown() const {
    for (auto const& [name, tensor] : file_.tensors()) {
      if (!taken_.contains(name)) throw error("tensor " + quoted(name) + " is not part of this architecture as this engine knows it");
    }
  }

 private:
  gguf_view const& file_;
  std::set<std::string_view> taken_;
};

layer_tensors find_layer(tensor_finder& file, model_config const& config, int layer) {
  std::string const prefix = "blk." + std::to_string(layer) + ".";
  auto const embedding = static_cast<std::uint64_t>(config.embedding);
  auto const feed_forward = static_cast<std::uint64_t>(config.feed_forward);
  auto const q = static_cast<std::uint64_t>(config.q_size());
  auto const kv = static_cast<std::uint64_t>(config.kv_size());
  layer_tensors found;
  found.attention_norm = file.vector({{prefix + "attn_norm.weight", embedding}});
  found.qkv = file.matrix({{prefix + "attn_q.weight", q}, {prefix + "attn_k.weight", kv}, {prefix + "attn_v.weight", kv}}, embedding);
  if (config.has_qkv_bias) {
    found.qkv_bias = file.vector({{prefix + "attn_q.bias", q}, {prefix + "attn_k.bias", kv}, {prefix + "attn_v.bias", kv}});
  }
  found.attention_output = file.matrix({{prefix + "attn_output.weight", embedding}}, q);
  found.feed_forward_norm = file.vector({{prefix + "ffn_norm.weight", embedding}});
  found.gate_up = file.matrix({{prefix + "ffn_gate.weight", feed_forward}, {prefix + "ffn_up.weight", feed_forward}}, embedding);
  found.down = file.matrix({{prefix + "ffn_down.weight", embedding}}, feed_forward);
  return found;
}

}  // namespace

std::size_t tensor_stack::size() const {
  std::size_t sum = 0;
  for (auto const* const part : parts) sum += part->rows() * part->extents[0];
  return sum;
}

model_tensors find_tensors(gguf_view const& file, model_config const& config) {
  tensor_finder finder(file);
  auto const vocabulary = static_cast<std::uint64_t>(config.vocabulary);
  auto const embedding = static_cast<std::uint64_t>(config.embedding);
  model_tensors found;
  found.embedding = finder.take("token_embd.weight", vocabulary, embedding);
  found.output_norm = finder.vector({{"output_norm.weight", embedding}});
  found.output = finder.matrix({{finder.has("output.weight") ? "output.weight" : "token_embd.weight", vocabulary}}, embedding);
  for (int layer = 0; layer < config.layers; ++layer) found.layers.push_back(find_layer(finder, config, layer));
  finder.refuse_unknown();
  return found;
}

void expand_rows(gguf_tensor const& tensor, std::uint64_t begin, std::uint64_t end, float* out) {
  dequantize(tensor.type, tensor.bytes.subspan(begin * tensor.row_bytes(), (end - begin) * tensor.row_bytes()),
             {out, (end - begin) * tensor.extents[0]});
}

}  // namespace llm
