#include "chat_format.hpp"

#include "error.hpp"

namespace llm {
namespace {

constexpr std::string_view start = "<|im_start|>";
constexpr std::string_view end = "<|im_end|>";

/// Some files hold the template's `\n` as two characters.
std::string with_line_breaks(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    bool const is_escape = text.substr(i).starts_with("\\n");
    out += is_escape ? '\n' : text[i];
    i += is_escape ? 1 : 0;
  }
  return out;
}

/// The first system turn that is spelt out in one literal: the default. Others are put together from the caller's messages.
std::string default_system_turn(std::string_view text) {
  std::string const opening = std::string(start) + "system\n";
  for (auto at = text.find(opening); at != std::string_view::npos; at = text.find(opening, at + 1)) {
    auto const begin = at + opening.size();
    auto const turn = text.substr(begin, text.find(end, begin) - begin);
    bool const is_literal = turn.find_first_of("'{}") == std::string_view::npos && begin + turn.size() < text.size();
    if (is_literal) return opening + std::string(turn) + std::string(end) + "\n";
  }
  return {};
}

}  // namespace

chat_format chat_format_from(std::string_view chat_template) {
  auto const text = with_line_breaks(chat_template);
  if (text.find(start) == std::string::npos || text.find(end) == std::string::npos) {
    throw error("tokenizer.chat_template does not use " + std::string(start) + " and " + std::string(end) + ", the only format known here");
  }
  return {.before = default_system_turn(text) + std::string(start) + "user\n",
          .after = std::string(end) + "\n" + std::string(start) + "assistant\n"};
}

chat_format read_chat_format(gguf_view const& file) { return chat_format_from(file.text("tokenizer.chat_template")); }

}  // namespace llm
