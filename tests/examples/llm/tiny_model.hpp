#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "gguf_builder.hpp"
#include "random.hpp"
#include "unicode.hpp"

/// A model of random weights, small enough to run under sanitizers: 2 layers, 4:2 heads of 32 unless asked for 2:1 of 64, 272 tokens.
struct tiny_model {
  static constexpr std::uint64_t embedding = 128, q = 128, kv = 64, feed_forward = 96, vocabulary = 272;
  std::string architecture = "llama";
  std::uint32_t layers = 2;
  std::uint32_t query_heads = 4;
  bool has_output = false;  // a matrix of its own, not the embedding

  /// Byte tokens, the specials <|im_start|> and <|im_end|>, and a few merges.
  void add_tokenizer(gguf_builder& file) const {
    std::vector<std::string> tokens{"<|im_start|>", "<|im_end|>"};
    std::uint32_t next = 256;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      bool const printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      std::string symbol;
      llm::append_utf8(symbol, printable ? byte : next++);
      tokens.push_back(symbol);
    }
    std::vector<std::string> const merges{"h e", "l l", "he ll", "\xC4\xA0 t", "i n", "hell o", "a a", "aa aa"};
    for (auto const* const merged : {"he", "ll", "hell", "\xC4\xA0t", "in", "hello", "aa", "aaaa"}) tokens.emplace_back(merged);
    std::vector<std::int32_t> kinds(vocabulary, 1);
    kinds[0] = kinds[1] = 3;
    while (tokens.size() < vocabulary) tokens.push_back("[unused" + std::to_string(tokens.size()) + "]");
    file.text("tokenizer.ggml.model", "gpt2");
    file.text("tokenizer.ggml.pre", architecture == "llama" ? "smollm" : "qwen2");
    file.texts("tokenizer.ggml.tokens", tokens);
    file.texts("tokenizer.ggml.merges", merges);
    file.integers("tokenizer.ggml.token_type", kinds);
    file.text("tokenizer.chat_template", "'<|im_start|>system\nBe brief.<|im_end|>\n' '<|im_start|>' + role");
  }

  void add_sizes(gguf_builder& file) const {
    std::string const prefix = architecture + ".";
    file.text("general.architecture", architecture);
    file.u32(prefix + "block_count", layers);
    file.u32(prefix + "context_length", 64);
    file.u32(prefix + "embedding_length", embedding);
    file.u32(prefix + "feed_forward_length", feed_forward);
    file.u32(prefix + "attention.head_count", query_heads);
    file.u32(prefix + "attention.head_count_kv", query_heads / 2);
    file.f32(prefix + "attention.layer_norm_rms_epsilon", 1e-5F);
    file.f32(prefix + "rope.freq_base", 10000.0F);
  }

  void add_layer(gguf_builder& file, llm::random_source& random, std::uint32_t layer) const {
    std::string const prefix = "blk." + std::to_string(layer) + ".";
    add(file, random, prefix + "attn_norm.weight", {embedding});
    add(file, random, prefix + "attn_q.weight", {embedding, q});
    add(file, random, prefix + "attn_k.weight", {embedding, kv});
    add(file, random, prefix + "attn_v.weight", {embedding, kv});
    add(file, random, prefix + "attn_output.weight", {q, embedding});
    add(file, random, prefix + "ffn_norm.weight", {embedding});
    add(file, random, prefix + "ffn_gate.weight", {embedding, feed_forward});
    add(file, random, prefix + "ffn_up.weight", {embedding, feed_forward});
    add(file, random, prefix + "ffn_down.weight", {feed_forward, embedding});
    if (architecture != "qwen2") return;
    add(file, random, prefix + "attn_q.bias", {q});
    add(file, random, prefix + "attn_k.bias", {kv});
    add(file, random, prefix + "attn_v.bias", {kv});
  }

  gguf_builder builder() const {
    gguf_builder file;
    llm::random_source random(7);
    add_sizes(file);
    add_tokenizer(file);
    add(file, random, "token_embd.weight", {embedding, vocabulary});
    add(file, random, "output_norm.weight", {embedding});
    if (has_output) add(file, random, "output.weight", {embedding, vocabulary});
    for (std::uint32_t layer = 0; layer < layers; ++layer) add_layer(file, random, layer);
    return file;
  }

  std::vector<std::byte> bytes() const { return builder().finish(); }

 private:
  static void add(gguf_builder& file, llm::random_source& random, std::string const& name, std::vector<std::uint64_t> const& extents) {
    std::uint64_t size = 1;
    for (auto const extent : extents) size *= extent;
    std::vector<float> values(size);
    for (auto& value : values) value = (static_cast<float>(random.between(0, 2000)) - 1000) / 4000;
    file.tensor(name, extents, values);
  }
};
