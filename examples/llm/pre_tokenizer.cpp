#include "pre_tokenizer.hpp"

#include <cstddef>
#include <string>

#include "error.hpp"
#include "quoted.hpp"
#include "unicode.hpp"

namespace llm {
namespace {

// The two regular expressions, matched by hand: each function returns the end of the match that starts at `at`, or `at` if there is none.

bool is_line_break(character const& c) { return c.bytes != 0 && (c.code_point == '\r' || c.code_point == '\n'); }

template <class Accept>
std::size_t run_end(std::string_view text, std::size_t at, Accept accept) {
  for (auto c = character_at(text, at); c.bytes != 0 && accept(c); c = character_at(text, at)) at += c.bytes;
  return at;
}

std::size_t class_run_end(std::string_view text, std::size_t at, character_class kind) {
  return run_end(text, at, [kind](character const& c) { return c.kind == kind; });
}

/// 's 't 're 've 'm 'll 'd
std::size_t match_contraction(std::string_view text, std::size_t at, bool any_case) {
  if (at >= text.size() || text[at] != '\'') return at;
  auto const lower = [&](std::size_t i) -> char {
    if (i >= text.size()) return 0;
    bool const upper = text[i] >= 'A' && text[i] <= 'Z';
    return any_case && upper ? static_cast<char>(text[i] - 'A' + 'a') : text[i];
  };
  char const first = lower(at + 1);
  char const second = lower(at + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l')) return at + 3;
  if (any_case && text.substr(at + 1).starts_with("\xC5\xBF")) return at + 3;  // U+017F folds to s
  return at;
}

/// `\s+(?!\S)|\s+`: a run of blanks leaves its last one to the word that follows.
std::size_t match_blanks(std::string_view text, std::size_t at) {
  std::size_t const end = class_run_end(text, at, character_class::space);
  if (end == at || end == text.size()) return end;
  std::size_t last = at;
  for (std::size_t i = at; i < end; i += character_at(text, i).bytes) last = i;
  return last > at ? last : end;
}

std::size_t skip_one_blank(std::string_view text, std::size_t at) { return at < text.size() && text[at] == ' ' ? at + 1 : at; }

/// GPT-2: `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
std::size_t match_gpt2(std::string_view text, std::size_t at) {
  if (auto const end = match_contraction(text, at, false); end != at) return end;
  auto const begin = skip_one_blank(text, at);
  for (auto const kind : {character_class::letter, character_class::number, character_class::other}) {
    if (auto const end = class_run_end(text, begin, kind); end != begin) return end;
  }
  return match_blanks(text, at);
}

/// `[^\r\n\p{L}\p{N}]?\p{L}+`
std::size_t match_qwen_word(std::string_view text, std::size_t at) {
  auto const first = character_at(text, at);
  bool const may_lead =
      first.bytes != 0 && !is_line_break(first) && first.kind != character_class::letter && first.kind != character_class::number;
  auto const begin = may_lead ? at + first.bytes : at;
  auto const end = class_run_end(text, begin, character_class::letter);
  return end == begin ? at : end;
}

/// ` ?[^\s\p{L}\p{N}]+[\r\n]*`
std::size_t match_qwen_symbols(std::string_view text, std::size_t at) {
  auto const begin = skip_one_blank(text, at);
  auto const end = class_run_end(text, begin, character_class::other);
  return end == begin ? at : run_end(text, end, is_line_break);
}

/// `\s*[\r\n]+`: up to the last line break of the run of blanks.
std::size_t match_line_breaks(std::string_view text, std::size_t at) {
  std::size_t last = at;
  std::size_t position = at;
  for (auto c = character_at(text, at); c.bytes != 0 && c.kind == character_class::space; c = character_at(text, position)) {
    position += c.bytes;
    if (is_line_break(c)) last = position;
  }
  return last;
}

std::size_t match_qwen(std::string_view text, std::size_t at) {
  if (auto const end = match_contraction(text, at, true); end != at) return end;
  if (auto const end = match_qwen_word(text, at); end != at) return end;
  if (auto const c = character_at(text, at); c.kind == character_class::number) return at + c.bytes;
  if (auto const end = match_qwen_symbols(text, at); end != at) return end;
  if (auto const end = match_line_breaks(text, at); end != at) return end;
  return match_blanks(text, at);
}

template <class Match>
void append_matches(std::string_view text, Match match, std::vector<std::string_view>& words) {
  for (std::size_t at = 0; at < text.size();) {
    auto const end = match(text, at);
    words.push_back(text.substr(at, end - at));
    at = end;
  }
}

/// Numbers stand alone, one character each; what lies between them is cut by GPT-2's rule as if it were a text of its own.
void append_smollm(std::string_view text, std::vector<std::string_view>& words) {
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    auto const c = character_at(text, at);
    if (c.kind == character_class::number) {
      append_matches(text.substr(begin, at - begin), match_gpt2, words);
      words.push_back(text.substr(at, c.bytes));
      begin = at + c.bytes;
    }
    at += c.bytes;
  }
  append_matches(text.substr(begin), match_gpt2, words);
}

}  // namespace

pre_tokenizer pre_tokenizer_from(std::string_view name) {
  if (name == "smollm") return pre_tokenizer::smollm;
  if (name == "qwen2") return pre_tokenizer::qwen2;
  throw error("tokenizer.ggml.pre is " + quoted(name) + ", expected 'smollm' or 'qwen2'");
}

std::vector<std::string_view> split_words(pre_tokenizer kind, std::string_view text) {
  std::vector<std::string_view> words;
  if (kind == pre_tokenizer::smollm) {
    append_smollm(text, words);
  } else {
    append_matches(text, match_qwen, words);
  }
  return words;
}

}  // namespace llm
