#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gguf.hpp"
#include "pre_tokenizer.hpp"

namespace llm {

using token = std::int32_t;

enum class special_tokens { as_text, matched };  // whether "<|im_end|>" in a text is one token or ten characters

/// Byte-level byte-pair encoding, as a GGUF file's `tokenizer.ggml.*` metadata describes it.
class tokenizer {
 public:
  /// Throws llm::error if the metadata is missing, of another tokenizer model, or contradictory. The file's bytes must outlive the
  /// tokenizer.
  explicit tokenizer(gguf_view const& file);

  /// Bytes that the vocabulary has no token for are left out, as other engines do.
  std::vector<token> encode(std::string_view text, special_tokens special = special_tokens::as_text) const;
  std::string decode(std::vector<token> const& tokens) const;
  std::size_t size() const { return texts_.size(); }

 private:
  struct merge {
    std::uint32_t rank;
    token merged;
  };
  struct hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  using word_cache = std::unordered_map<std::string_view, std::vector<token>>;

  void read_merges(std::vector<std::string_view> const& merges);
  void read_special_tokens(std::vector<std::int32_t> const& kinds);
  token find(std::string_view symbol) const;
  void encode_plain(std::string_view text, word_cache& cache, std::vector<token>& out) const;
  std::vector<token> merge_word(std::string_view word) const;
  token special_at(std::string_view text) const;

  pre_tokenizer words_;
  std::vector<std::string_view> texts_;  // as in the file: bytes spelled as printable characters
  std::unordered_map<std::string_view, token> ids_;
  std::unordered_map<std::uint64_t, merge> merges_;  // by left << 32 | right
  std::vector<token> byte_tokens_;                   // [256], -1 where the vocabulary has none
  std::vector<std::vector<token>> special_by_byte_;  // [256], longest first
};

}  // namespace llm
