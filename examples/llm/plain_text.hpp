#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tokenizer.hpp"

namespace llm {

/// Runs of blanks and tabs become one blank.
std::string collapse_blanks(std::string_view text);

/// A long plain text, from its 1000th token on: what comes first is mostly headings.
class plain_text {
 public:
  static constexpr std::int64_t skipped_tokens = 1000;

  /// Reads `file`, or by default all regular files of /usr/share/common-licenses in name order, continued by the manual pages of perl-doc
  /// where those are installed and `tokens` asks for more. Throws llm::error if there are fewer than `tokens` after the skipped ones.
  plain_text(std::optional<std::filesystem::path> const& file, tokenizer const& tokens, std::int64_t count);

  std::vector<token> const& tokens() const { return tokens_; }

  /// What was read, in words.
  std::string const& source() const { return source_; }

 private:
  void append(std::vector<std::filesystem::path> const& files, std::string const& name, tokenizer const& tokenize);
  bool is_short(std::int64_t count) const { return static_cast<std::int64_t>(tokens_.size()) < skipped_tokens + count; }

  std::vector<token> tokens_;
  std::string source_;
};

}  // namespace llm
