#include "task.hpp"

#include <doctest/doctest.h>

#include <set>

#include "error.hpp"
#include "tiny_model.hpp"

namespace {

struct fixture {
  std::vector<std::byte> bytes = tiny_model{.architecture = "qwen2"}.bytes();
  llm::gguf_view view{bytes};
  llm::tokenizer tokens{view};
  std::vector<llm::token> text = tokens.encode(std::string(9000, '.'));

  llm::task make(llm::task_kind kind, std::int64_t length, std::uint64_t seed = 1) const {
    return {kind, tokens, llm::read_chat_format(view), text, length, seed};
  }
  std::string prompt(llm::question const& question) const { return tokens.decode(question.prompt); }
  std::string begun(llm::question const& question) const { return tokens.decode(question.begun); }
};

std::size_t count_of(std::string const& text, std::string_view what) {
  std::size_t count = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE_FIXTURE(fixture, "the length counts all tokens, prompt and begun answer") {
  for (auto const kind : {llm::task_kind::passkey, llm::task_kind::multi_key, llm::task_kind::kv}) {
    auto const task = make(kind, 4000);
    for (int i = 0; i < 10; ++i) {
      auto const question = task.make(i, 10);
      CHECK(question.prompt.size() + question.begun.size() == 4000);
      CHECK(question.answer.size() == 5);
    }
  }
}

TEST_CASE_FIXTURE(fixture, "passkey hides its sentence after floor(m i / 9) of m text tokens") {
  auto const task = make(llm::task_kind::passkey, 1000);
  std::set<std::string> keys;
  for (int i = 0; i < 10; ++i) {
    auto const question = task.make(i, 10);
    auto const all = prompt(question);
    auto const sentence = "\n\nThe pass key is " + question.answer + ". Remember it. " + question.answer + " is the pass key.\n\n";
    auto const at = all.find(sentence);
    REQUIRE(at != std::string::npos);
    auto const begin = all.find("memorize it.\n\n") + 14;
    auto const end = all.find("\n\nWhat is the pass key in the text above?<|im_end|>\n<|im_start|>assistant\n");
    REQUIRE(end != std::string::npos);
    auto const m = end - begin - sentence.size();
    CHECK(at - begin == m * static_cast<std::size_t>(i) / 9);
    CHECK(begun(question) == "The pass key is ");
    CHECK(all.starts_with("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nThere is important information hidden"));
    keys.insert(question.answer);
  }
  CHECK(keys.size() == 10);
}

TEST_CASE_FIXTURE(fixture, "fewer than ten questions spread over the same depths") {
  auto const task = make(llm::task_kind::passkey, 1000);
  auto const place = [&](int index, int count) { return prompt(task.make(index, count)).find("\n\nThe pass key is"); };
  CHECK(place(0, 3) == place(0, 10));
  CHECK(place(1, 3) == place(5, 10));
  CHECK(place(2, 3) == place(9, 10));
  CHECK(place(0, 1) == place(5, 10));
}

TEST_CASE_FIXTURE(fixture, "multi_key hides a sentence for each of eight colours and asks for one") {
  auto const task = make(llm::task_kind::multi_key, 3000);
  std::set<std::string> asked;
  for (int i = 0; i < 10; ++i) {
    auto const question = task.make(i, 10);
    auto const all = prompt(question);
    CHECK(count_of(all, "\n\nThe pass key of the ") == 8);
    for (auto const* const colour : {"red", "blue", "green", "yellow", "black", "white", "silver", "golden"}) {
      CHECK(count_of(all, std::string("The pass key of the ") + colour + " door is ") == 1);
    }
    CHECK(all.find(begun(question) + question.answer + ".\n\n") != std::string::npos);
    asked.insert(begun(question));
  }
  CHECK(asked.size() > 1);
}

TEST_CASE_FIXTURE(fixture, "kv hides one line of JSON with 80 pairs and asks for one") {
  auto const question = make(llm::task_kind::kv, 4000).make(4, 10);
  auto const all = prompt(question);
  auto const at = all.find("\n\n{\"");
  REQUIRE(at != std::string::npos);
  auto const line = all.substr(at + 2, all.find('\n', at + 2) - at - 2);
  CHECK(line.ends_with("\"}"));
  CHECK(count_of(line, "\": \"") == 80);
  CHECK(count_of(line, ", ") == 79);
  auto const begin = begun(question);
  CHECK(begin.starts_with("The value of the key \""));
  auto const key = begin.substr(22, 8);
  CHECK(begin.ends_with("\" is \""));
  CHECK(line.find("\"" + key + "\": \"" + question.answer + "\"") != std::string::npos);
  CHECK(all.find("\n\nWhat is the value of the key \"" + key + "\" in the JSON object above?") != std::string::npos);
}

TEST_CASE_FIXTURE(fixture, "the seed decides the numbers") {
  auto const first = make(llm::task_kind::passkey, 500, 1).make(0, 10);
  CHECK(first.prompt == make(llm::task_kind::passkey, 500, 1).make(0, 10).prompt);
  CHECK(first.answer != make(llm::task_kind::passkey, 500, 2).make(0, 10).answer);
}

TEST_CASE_FIXTURE(fixture, "lengths without room and texts that are too short are refused") {
  CHECK_THROWS_AS(make(llm::task_kind::passkey, 100).make(0, 1), llm::error);
  CHECK_THROWS_AS(make(llm::task_kind::kv, 1000).make(0, 1), llm::error);
  CHECK_THROWS_AS(make(llm::task_kind::passkey, 20'000).make(0, 1), llm::error);
}
