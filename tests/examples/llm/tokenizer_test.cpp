#include "tokenizer.hpp"

#include <doctest/doctest.h>

#include "error.hpp"
#include "tiny_model.hpp"

namespace {

struct fixture {
  std::vector<std::byte> bytes = tiny_model{}.bytes();
  llm::gguf_view view{bytes};
  llm::tokenizer tokens{view};

  std::vector<std::string> pieces(std::string_view text, llm::special_tokens special = llm::special_tokens::as_text) const {
    std::vector<std::string> result;
    for (auto const id : tokens.encode(text, special)) result.push_back(tokens.decode({id}));
    return result;
  }
};

using strings = std::vector<std::string>;

}  // namespace

TEST_CASE_FIXTURE(fixture, "merges go by rank, leftmost first") {
  CHECK(pieces("hello") == strings{"hello"});
  CHECK(pieces("hell thin") == strings{"hell", " t", "h", "in"});
  CHECK(pieces("aaaaaaa") == strings{"aaaa", "aa", "a"});
  CHECK(pieces("").empty());
}

TEST_CASE_FIXTURE(fixture, "special tokens are matched only when asked") {
  CHECK(pieces("<|im_end|>hello", llm::special_tokens::matched) == strings{"<|im_end|>", "hello"});
  CHECK(pieces("<|im_end|>").size() == 10);  // nothing merges
  CHECK(pieces("<|im_<|im_end|>", llm::special_tokens::matched).back() == "<|im_end|>");
}

TEST_CASE_FIXTURE(fixture, "all bytes survive a round trip") {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text += static_cast<char>(byte);
  CHECK(tokens.decode(tokens.encode(text)) == text);
}

TEST_CASE_FIXTURE(fixture, "a word of a million letters merges in reasonable time") {
  CHECK(tokens.encode(std::string(1'000'000, 'a')).size() == 250'000);
}

TEST_CASE_FIXTURE(fixture, "unknown tokens are refused") {
  CHECK_THROWS_AS(tokens.decode({-1}), llm::error);
  CHECK_THROWS_AS(tokens.decode({272}), llm::error);
}
