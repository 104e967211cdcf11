#include "task.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "error.hpp"
#include "random.hpp"

namespace llm {
namespace {

constexpr std::string_view introduction = "There is important information hidden in the following text. Find it and memorize it.\n\n";
constexpr int depths = 10;
constexpr int pairs = 80;
constexpr std::array<std::string_view, 8> colours{"red", "blue", "green", "yellow", "black", "white", "silver", "golden"};

/// Position in the text as a fraction, so that floor(m * part / whole) is exact.
struct depth {
  std::int64_t part;
  std::int64_t whole;
};

/// Depth i/9 with i spread evenly over 0..9 when fewer than ten are asked.
int step_of(int index, int count) {
  if (count >= depths) return index % depths;
  if (count == 1) return depths / 2;
  return static_cast<int>((static_cast<std::int64_t>(index) * (depths - 1) * 2 + count - 1) / (2 * (count - 1)));
}

std::string five_digits(random_source& random) { return std::to_string(random.between(10000, 99999)); }

std::string hexadecimal(random_source& random) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (int i = 0; i < 8; ++i) text += digits[random.between(0, 15)];
  return text;
}

}  // namespace

struct task::hidden_text {
  std::string text;
  depth where;
};

/// Everything that differs between the kinds.
struct task::wording {
  std::vector<hidden_text> hidden;  // by ascending depth
  std::string question;
  std::string begun;
  std::string answer;
};

namespace {

template <class Wording>
Wording word_passkey(random_source& random, depth where) {
  auto const key = five_digits(random);
  return {.hidden = {{"\n\nThe pass key is " + key + ". Remember it. " + key + " is the pass key.\n\n", where}},
          .question = "What is the pass key in the text above?",
          .begun = "The pass key is ",
          .answer = key};
}

/// Eight sentences in the middle of eight equal parts of the text; the one asked for moves through them with the question's step.
template <class Wording>
Wording word_multi_key(random_source& random, int step) {
  std::vector<std::string_view> shuffled(colours.begin(), colours.end());
  random.shuffle(shuffled);
  auto const asked = static_cast<std::size_t>(step * 7 / (depths - 1));
  Wording wording;
  for (std::size_t i = 0; i < shuffled.size(); ++i) {
    auto const number = five_digits(random);
    std::string const sentence = "The pass key of the " + std::string(shuffled[i]) + " door is ";
    wording.hidden.push_back({"\n\n" + sentence + number + ".\n\n", {static_cast<std::int64_t>(2 * i + 1), 16}});
    if (i != asked) continue;
    wording.question = "What is the pass key of the " + std::string(shuffled[i]) + " door in the text above?";
    wording.begun = sentence;
    wording.answer = number;
  }
  return wording;
}

template <class Wording>
Wording word_kv(random_source& random, depth where) {
  std::set<std::string> seen;
  auto const asked = random.between(0, pairs - 1);
  Wording wording;
  std::string json = "{";
  while (seen.size() < pairs) {
    auto const key = hexadecimal(random);
    auto const value = five_digits(random);
    if (!seen.insert(key).second) continue;
    json += (seen.size() > 1 ? ", \"" : "\"") + key + "\": \"" + value + "\"";
    if (seen.size() != asked + 1) continue;
    wording.question = "What is the value of the key \"" + key + "\" in the JSON object above?";
    wording.begun = "The value of the key \"" + key + "\" is \"";
    wording.answer = value;
  }
  wording.hidden.push_back({"\n\n" + json + "}\n\n", where});
  return wording;
}

}  // namespace

task_kind task_from(std::string_view name) {
  for (auto const kind : {task_kind::passkey, task_kind::multi_key, task_kind::kv}) {
    if (name_of(kind) == name) return kind;
  }
  throw error("--task is '" + std::string(name) + "', expected passkey, multi_key or kv");
}

std::string_view name_of(task_kind kind) {
  switch (kind) {
    case task_kind::passkey:
      return "passkey";
    case task_kind::multi_key:
      return "multi_key";
    case task_kind::kv:
      break;
  }
  return "kv";
}

task::task(task_kind kind, tokenizer const& tokens, chat_format chat, std::span<token const> text, std::int64_t length, std::uint64_t seed)
    : kind_(kind), tokens_(tokens), chat_(std::move(chat)), text_(text), length_(length), seed_(seed) {}

task::wording task::word(int index, int count) const {
  random_source random(seed_ * 1000003 + static_cast<std::uint64_t>(index));
  int const step = step_of(index, count);
  switch (kind_) {
    case task_kind::passkey:
      return word_passkey<wording>(random, {step, depths - 1});
    case task_kind::multi_key:
      return word_multi_key<wording>(random, step);
    case task_kind::kv:
      break;
  }
  return word_kv<wording>(random, {step, depths - 1});
}

question task::make(int index, int count) const {
  auto const parts = word(index, count);
  question result{
      .prompt = tokens_.encode(chat_.before, special_tokens::matched), .begun = tokens_.encode(parts.begun), .answer = parts.answer};
  auto const append = [&](std::vector<token> const& more) { result.prompt.insert(result.prompt.end(), more.begin(), more.end()); };
  auto const asked = tokens_.encode("\n\n" + parts.question);
  auto const after = tokens_.encode(chat_.after, special_tokens::matched);
  append(tokens_.encode(introduction));
  auto fixed = result.prompt.size() + asked.size() + after.size() + result.begun.size();
  for (auto const& hidden : parts.hidden) fixed += tokens_.encode(hidden.text).size();
  auto const text_tokens = length_ - static_cast<std::int64_t>(fixed);
  if (text_tokens < 0) {
    throw error("--length " + std::to_string(length_) + " is too short for task " + std::string(name_of(kind_)) + ", which needs " +
                std::to_string(fixed) + " tokens besides the text");
  }
  append(fill(parts.hidden, text_tokens));
  append(asked);
  append(after);
  return result;
}

std::vector<token> task::fill(std::vector<hidden_text> const& hidden, std::int64_t text_tokens) const {
  if (text_tokens > static_cast<std::int64_t>(text_.size())) {
    throw error("the text has " + std::to_string(text_.size()) + " tokens, this task needs " + std::to_string(text_tokens));
  }
  std::vector<token> out;
  std::int64_t done = 0;
  for (auto const& [text, where] : hidden) {
    auto const until = text_tokens * where.part / where.whole;
    out.insert(out.end(), text_.begin() + done, text_.begin() + until);
    auto const tokens = tokens_.encode(text);
    out.insert(out.end(), tokens.begin(), tokens.end());
    done = until;
  }
  out.insert(out.end(), text_.begin() + done, text_.begin() + text_tokens);
  return out;
}

}  // namespace llm
