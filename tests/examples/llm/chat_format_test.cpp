#include "chat_format.hpp"

#include <doctest/doctest.h>

#include "error.hpp"

TEST_CASE("the default system turn is read from the template") {
  auto const format = llm::chat_format_from(
      "{% if first %}{{ '<|im_start|>system\nYou are small.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + role + '\n' + content + "
      "'<|im_end|>'}}");
  CHECK(format.before == "<|im_start|>system\nYou are small.<|im_end|>\n<|im_start|>user\n");
  CHECK(format.after == "<|im_end|>\n<|im_start|>assistant\n");
}

TEST_CASE("turns that are put together from messages are passed over, and spelt-out line breaks are line breaks") {
  auto const format = llm::chat_format_from(
      "{{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}{{- '<|im_start|>system\\nYou are big. Be "
      "kind.<|im_end|>\\n' }}");
  CHECK(format.before == "<|im_start|>system\nYou are big. Be kind.<|im_end|>\n<|im_start|>user\n");
}

TEST_CASE("a template without a system turn begins with the user") {
  CHECK(llm::chat_format_from("'<|im_start|>' + role + '<|im_end|>'").before == "<|im_start|>user\n");
}

TEST_CASE("other chat formats are refused") { CHECK_THROWS_AS(llm::chat_format_from("[INST] {{ content }} [/INST]"), llm::error); }
