#include "pre_tokenizer.hpp"

#include <doctest/doctest.h>

#include <string>

#include "error.hpp"
#include "random.hpp"

namespace {

using words = std::vector<std::string_view>;

words smollm(std::string_view text) { return llm::split_words(llm::pre_tokenizer::smollm, text); }
words qwen2(std::string_view text) { return llm::split_words(llm::pre_tokenizer::qwen2, text); }

}  // namespace

TEST_CASE("smollm splits digits one by one, then by GPT-2's rule") {
  CHECK(smollm("I'm 42.") == words{"I", "'m", " ", "4", "2", "."});
  CHECK(smollm("two  words\n\n x") == words{"two", " ", " words", "\n\n", " x"});
  CHECK(smollm("a \t") == words{"a", " \t"});
  CHECK(smollm("DON'T don't") == words{"DON", "'", "T", " don", "'t"});
  CHECK(smollm("x += y;") == words{"x", " +=", " y", ";"});
}

TEST_CASE("qwen2 takes one leading symbol into a word and keeps line breaks with what they end") {
  CHECK(qwen2("DON'T say (hello)") == words{"DON", "'T", " say", " (", "hello", ")"});
  CHECK(qwen2("12 a") == words{"1", "2", " a"});
  CHECK(qwen2("end;\n\n  next") == words{"end", ";\n\n", " ", " next"});
  CHECK(qwen2("a \n \n  b") == words{"a", " \n \n", " ", " b"});
  CHECK(qwen2("\tx") == words{"\tx"});
  CHECK(qwen2("tail  ") == words{"tail", "  "});
}

TEST_CASE("letters and numbers of all scripts count") {
  CHECK(qwen2("\xC3\xA9t\xC3\xA9 \xD0\xBC\xD0\xB8\xD1\x80") == words{"\xC3\xA9t\xC3\xA9", " \xD0\xBC\xD0\xB8\xD1\x80"});
  CHECK(smollm("x\xC2\xB2y") == words{"x", "\xC2\xB2", "y"});  // superscript two is a number
}

TEST_CASE("words joined are the text, whatever the bytes") {
  llm::random_source random(3);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (auto size = random.between(0, 60); size > 0; --size) {
      constexpr std::string_view likely = " \t\r\n'sSrReEvVmM1aZ.;\xC2\xA0\xE2\x80\x83\xF0\x9F\x99\x82";
      text += random.between(0, 4) == 0 ? static_cast<char>(random.between(0, 255)) : likely[random.between(0, likely.size() - 1)];
    }
    for (auto const kind : {llm::pre_tokenizer::smollm, llm::pre_tokenizer::qwen2}) {
      std::string joined;
      for (auto const word : llm::split_words(kind, text)) {
        CHECK_FALSE(word.empty());
        joined += word;
      }
      CHECK(joined == text);
    }
  }
}

TEST_CASE("other pre-tokenizers are refused by name") { CHECK_THROWS_AS(llm::pre_tokenizer_from("gpt-4o"), llm::error); }
