#include "tokenizer.hpp"

#include <algorithm>
#include <array>
#include <queue>

#include "error.hpp"
#include "quoted.hpp"
#include "unicode.hpp"

namespace llm {
namespace {

/// GPT-2's spelling of bytes: printable ones as themselves, the others as characters from U+0100 on. [256]
std::array<std::uint32_t, 256> make_byte_spelling() {
  std::array<std::uint32_t, 256> spelling{};
  std::uint32_t next = 256;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    bool const printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    spelling[byte] = printable ? byte : next++;
  }
  return spelling;
}

/// A word under merging: a doubly linked list of symbols in an array.
struct symbol {
  token id;
  std::int32_t previous;
  std::int32_t next;
};

/// Two neighbours that may merge; out of date once either of them has changed.
struct candidate {
  std::uint32_t rank;
  std::int32_t left;
  token left_id;
  token right_id;
  token merged;

  bool operator>(candidate const& other) const { return rank != other.rank ? rank > other.rank : left > other.left; }
};

std::uint64_t pair_key(token left, token right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

constexpr std::int32_t control_kind = 3;
constexpr std::int32_t user_defined_kind = 4;

}  // namespace

tokenizer::tokenizer(gguf_view const& file)
    : words_(pre_tokenizer_from(file.text("tokenizer.ggml.pre"))), byte_tokens_(256, -1), special_by_byte_(256) {
  if (auto const model = file.text("tokenizer.ggml.model"); model != "gpt2") {
    throw error("tokenizer.ggml.model is " + quoted(model) + ", expected 'gpt2' (byte-level byte pairs)");
  }
  texts_ = file.texts("tokenizer.ggml.tokens");
  if (texts_.empty() || texts_.size() > 1U << 30) throw error("tokenizer.ggml.tokens has " + std::to_string(texts_.size()) + " entries");
  ids_.reserve(texts_.size());
  for (std::size_t i = 0; i < texts_.size(); ++i) ids_.emplace(texts_[i], static_cast<token>(i));
  auto const spelling = make_byte_spelling();
  for (std::size_t byte = 0; byte < 256; ++byte) {
    std::string symbol;
    append_utf8(symbol, spelling[byte]);
    byte_tokens_[byte] = find(symbol);
  }
  read_merges(file.texts("tokenizer.ggml.merges"));
  read_special_tokens(file.integers("tokenizer.ggml.token_type"));
}

token tokenizer::find(std::string_view symbol) const {
  auto const found = ids_.find(symbol);
  return found == ids_.end() ? -1 : found->second;
}

void tokenizer::read_merges(std::vector<std::string_view> const& merges) {
  merges_.reserve(merges.size());
  std::string merged;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    auto const text = merges[rank];
    auto const blank = text.find(' ');
    if (blank == std::string_view::npos)
      throw error("tokenizer.ggml.merges[" + std::to_string(rank) + "] has no blank, expected 'left right'");
    merged.assign(text.substr(0, blank)).append(text.substr(blank + 1));
    token const left = find(text.substr(0, blank));
    token const right = find(text.substr(blank + 1));
    token const result = find(merged);
    if (left < 0 || right < 0 || result < 0) {
      throw error("tokenizer.ggml.merges[" + std::to_string(rank) + "] names a token that tokenizer.ggml.tokens does not have");
    }
    merges_.emplace(pair_key(left, right), merge{static_cast<std::uint32_t>(rank), result});
  }
}

void tokenizer::read_special_tokens(std::vector<std::int32_t> const& kinds) {
  if (kinds.size() != texts_.size()) {
    throw error("tokenizer.ggml.token_type has " + std::to_string(kinds.size()) + " entries, expected " + std::to_string(texts_.size()));
  }
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    bool const special = kinds[i] == control_kind || kinds[i] == user_defined_kind;
    if (special && !texts_[i].empty()) special_by_byte_[static_cast<std::uint8_t>(texts_[i][0])].push_back(static_cast<token>(i));
  }
  for (auto& tokens : special_by_byte_) {
    std::stable_sort(tokens.begin(), tokens.end(), [&](token a, token b) { return texts_[a].size() > texts_[b].size(); });
  }
}

token tokenizer::special_at(std::string_view text) const {
  for (token const id : special_by_byte_[static_cast<std::uint8_t>(text[0])]) {
    if (text.starts_with(texts_[id])) return id;
  }
  return -1;
}

std::vector<token> tokenizer::merge_word(std::string_view word) const {
  std::vector<symbol> symbols;
  for (char const c : word) {
    auto const id = byte_tokens_[static_cast<std::uint8_t>(c)];
    auto const place = static_cast<std::int32_t>(symbols.size());
    if (id >= 0) symbols.push_back({id, place - 1, place + 1});
  }
  if (symbols.empty()) return {};
  symbols.back().next = -1;

  std::priority_queue<candidate, std::vector<candidate>, std::greater<>> queue;
  auto const offer = [&](std::int32_t left) {
    if (left < 0 || symbols[left].next < 0) return;
    token const left_id = symbols[left].id;
    token const right_id = symbols[symbols[left].next].id;
    auto const found = merges_.find(pair_key(left_id, right_id));
    if (found != merges_.end()) queue.push({found->second.rank, left, left_id, right_id, found->second.merged});
  };
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(symbols.size()); ++i) offer(i);
  while (!queue.empty()) {
    auto const top = queue.top();
    queue.pop();
    auto& left = symbols[top.left];
    if (left.id != top.left_id || left.next < 0 || symbols[left.next].id != top.right_id) continue;
    auto& right = symbols[left.next];
    left.id = top.merged;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) symbols[left.next].previous = top.left;
    offer(left.previous);
    offer(top.left);
  }
  std::vector<token> result;
  for (std::int32_t i = 0; i >= 0; i = symbols[i].next) result.push_back(symbols[i].id);
  return result;
}

void tokenizer::encode_plain(std::string_view text, word_cache& cache, std::vector<token>& out) const {
  for (auto const word : split_words(words_, text)) {
    auto [entry, is_new] = cache.try_emplace(word);
    if (is_new) entry->second = merge_word(word);
    out.insert(out.end(), entry->second.begin(), entry->second.end());
  }
}

std::vector<token> tokenizer::encode(std::string_view text, special_tokens special) const {
  std::vector<token> out;
  word_cache cache;
  std::size_t begin = 0;
  for (std::size_t at = 0; special == special_tokens::matched && at < text.size();) {
    token const id = special_at(text.substr(at));
    if (id < 0) {
      ++at;
      continue;
    }
    encode_plain(text.substr(begin, at - begin), cache, out);
    out.push_back(id);
    at += texts_[id].size();
    begin = at;
  }
  encode_plain(text.substr(begin), cache, out);
  return out;
}

std::string tokenizer::decode(std::vector<token> const& tokens) const {
  static auto const byte_of = [] {
    std::unordered_map<std::uint32_t, char> map;
    auto const spelling = make_byte_spelling();
    for (std::size_t byte = 0; byte < 256; ++byte) map.emplace(spelling[byte], static_cast<char>(byte));
    return map;
  }();
  std::string text;
  for (token const id : tokens) {
    if (id < 0 || static_cast<std::size_t>(id) >= texts_.size()) throw error("token " + std::to_string(id) + " is not in the vocabulary");
    for (std::size_t at = 0; at < texts_[id].size();) {
      auto const c = character_at(texts_[id], at);
      auto const found = byte_of.find(c.code_point);
      if (found != byte_of.end()) {
        text += found->second;
      } else {
        text.append(texts_[id].substr(at, c.bytes));
      }
      at += c.bytes;
    }
  }
  return text;
}

}  // namespace llm
