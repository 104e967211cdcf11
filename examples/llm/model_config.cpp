#include "model_config.hpp"

#include <cmath>

#include "error.hpp"
#include "quoted.hpp"

namespace llm {
namespace {

constexpr std::uint64_t largest_size = 1 << 20;  // of any single extent: keeps every product of two inside 64 bits

int size_from(gguf_view const& file, std::string const& key, std::uint64_t largest = largest_size) {
  auto const value = file.integer(key);
  if (value < 1 || value > largest) {
    throw error(key + " is " + std::to_string(value) + ", expected 1 to " + std::to_string(largest));
  }
  return static_cast<int>(value);
}

void read_heads(gguf_view const& file, std::string const& prefix, model_config& config) {
  config.query_heads = size_from(file, prefix + "attention.head_count", 4096);
  bool const grouped = file.find_integer(prefix + "attention.head_count_kv").has_value();
  config.kv_heads = grouped ? size_from(file, prefix + "attention.head_count_kv", 4096) : config.query_heads;
  if (config.query_heads % config.kv_heads != 0) {
    throw error(prefix + "attention.head_count " + std::to_string(config.query_heads) + " is not a multiple of head_count_kv " +
                std::to_string(config.kv_heads));
  }
  bool const explicit_size = file.find_integer(prefix + "attention.key_length").has_value();
  if (!explicit_size && config.embedding % config.query_heads != 0) {
    throw error(prefix + "embedding_length " + std::to_string(config.embedding) + " is not a multiple of attention.head_count " +
                std::to_string(config.query_heads));
  }
  config.head_size = explicit_size ? size_from(file, prefix + "attention.key_length", 256) : config.embedding / config.query_heads;
  if (config.head_size % 8 != 0 || config.head_size > 256) {
    throw error("head size is " + std::to_string(config.head_size) + ", expected a multiple of 8 up to 256");
  }
  auto const value_size = file.find_integer(prefix + "attention.value_length").value_or(config.head_size);
  if (value_size != static_cast<std::uint64_t>(config.head_size)) {
    throw error(prefix + "attention.value_length is " + std::to_string(value_size) + ", expected the key's " +
                std::to_string(config.head_size));
  }
}

void read_rope(gguf_view const& file, std::string const& prefix, model_config& config) {
  config.rope_base = file.find_real(prefix + "rope.freq_base").value_or(10000.0);
  if (!(config.rope_base > 0) || !std::isfinite(config.rope_base)) {
    throw error(prefix + "rope.freq_base is " + std::to_string(config.rope_base) + ", expected a positive number");
  }
  auto const turned = file.find_integer(prefix + "rope.dimension_count").value_or(config.head_size);
  if (turned != static_cast<std::uint64_t>(config.head_size)) {
    throw error(prefix + "rope.dimension_count is " + std::to_string(turned) + ", expected the head size " +
                std::to_string(config.head_size));
  }
  auto const scaling = file.find_text(prefix + "rope.scaling.type").value_or("none");
  if (scaling != "none") throw error(prefix + "rope.scaling.type is " + quoted(scaling) + ", expected 'none'");
}

}  // namespace

model_config read_config(gguf_view const& file) {
  model_config config{};
  config.architecture = file.text("general.architecture");
  if (config.architecture != "llama" && config.architecture != "qwen2") {
    throw error("general.architecture is " + quoted(config.architecture) + ", expected 'llama' or 'qwen2'");
  }
  bool const is_qwen = config.architecture == "qwen2";
  config.pairs = is_qwen ? rope_pairs::halves : rope_pairs::neighbours;
  config.has_qkv_bias = is_qwen;
  config.name = file.find_text("general.name").value_or("unnamed");
  std::string const prefix = config.architecture + ".";
  config.layers = size_from(file, prefix + "block_count", 1024);
  config.embedding = size_from(file, prefix + "embedding_length");
  config.feed_forward = size_from(file, prefix + "feed_forward_length");
  config.trained_tokens = static_cast<std::int64_t>(file.find_integer(prefix + "context_length").value_or(0));
  config.norm_epsilon = static_cast<float>(file.real(prefix + "attention.layer_norm_rms_epsilon"));
  if (!(config.norm_epsilon >= 0 && config.norm_epsilon < 1)) {
    throw error(prefix + "attention.layer_norm_rms_epsilon is " + std::to_string(config.norm_epsilon) + ", expected 0 to 1");
  }
  read_heads(file, prefix, config);
  read_rope(file, prefix, config);
  config.vocabulary = static_cast<std::int64_t>(file.texts("tokenizer.ggml.tokens").size());
  return config;
}

}  // namespace llm
