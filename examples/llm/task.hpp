#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat_format.hpp"
#include "tokenizer.hpp"

namespace llm {

enum class task_kind { passkey, multi_key, kv };

task_kind task_from(std::string_view name);
std::string_view name_of(task_kind kind);

/// One question about something hidden in a long text.
struct question {
  std::vector<token> prompt;  // read with the pattern
  std::vector<token> begun;   // the answer's beginning, read densely
  std::string answer;         // five digits
};

/// Makes questions of one kind and length. All parts are tokenised apart and joined.
class task {
 public:
  /// `length` counts all tokens of prompt and begun answer. The text must outlive the task.
  task(task_kind kind, tokenizer const& tokens, chat_format chat, std::span<token const> text, std::int64_t length, std::uint64_t seed);

  /// Question `index` of `count`; the hidden part's depth runs evenly from the text's start to its end. Throws llm::error if the length
  /// has no room for the question or the text is too short for the length.
  question make(int index, int count) const;

 private:
  struct hidden_text;
  struct wording;

  wording word(int index, int count) const;
  std::vector<token> fill(std::vector<hidden_text> const& hidden, std::int64_t text_tokens) const;

  task_kind kind_;
  tokenizer const& tokens_;
  chat_format chat_;
  std::span<token const> text_;
  std::int64_t length_;
  std::uint64_t seed_;
};

}  // namespace llm
