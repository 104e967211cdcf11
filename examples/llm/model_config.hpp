#pragma once

#include <cstdint>
#include <string>

#include "gguf.hpp"
#include "layer_math.hpp"

namespace llm {

/// A decoder's sizes, read from a GGUF file of architecture `llama` or `qwen2`.
struct model_config {
  std::string name;
  std::string architecture;
  int layers;
  int embedding;
  int feed_forward;
  int query_heads;
  int kv_heads;
  int head_size;
  std::int64_t vocabulary;
  std::int64_t trained_tokens;  // the context length it was trained for
  float norm_epsilon;
  double rope_base;
  rope_pairs pairs;
  bool has_qkv_bias;

  int q_size() const { return query_heads * head_size; }
  int kv_size() const { return kv_heads * head_size; }
  int qkv_size() const { return q_size() + 2 * kv_size(); }
};

/// Throws llm::error naming the metadata value that is missing, contradictory or not supported.
model_config read_config(gguf_view const& file);

}  // namespace llm
