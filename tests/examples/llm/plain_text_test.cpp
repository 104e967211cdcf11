#include "plain_text.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "error.hpp"
#include "tiny_model.hpp"

namespace {

struct fixture {
  std::vector<std::byte> bytes = tiny_model{}.bytes();
  llm::gguf_view view{bytes};
  llm::tokenizer tokens{view};
  std::filesystem::path path = std::filesystem::temp_directory_path() / "lacuna_plain_text_test.txt";

  explicit fixture(std::string const& content = "x  y\t\tz\n") { std::ofstream(path) << content; }
  ~fixture() { std::filesystem::remove(path); }
};

}  // namespace

TEST_CASE("runs of blanks and tabs become one blank, line breaks stay") {
  CHECK(llm::collapse_blanks(" a \t b\n\n\tc  ") == " a b\n\n c ");
  CHECK(llm::collapse_blanks("").empty());
}

TEST_CASE("a text shorter than the length asked is refused with both numbers") {
  fixture const here;
  try {
    llm::plain_text const text(here.path, here.tokens, 500);
    FAIL("accepted");
  } catch (llm::error const& failure) {
    CHECK(std::string(failure.what()).find("has 6 tokens, but this length needs 1500") != std::string::npos);
  }
}

TEST_CASE("a text file is read and collapsed") {
  fixture const here(std::string(2000, '.') + "   end");
  llm::plain_text const text(here.path, here.tokens, 1000);
  CHECK(here.tokens.decode(text.tokens()).ends_with(". end"));
  CHECK(text.source() == here.path.string());
}

TEST_CASE("a missing text is refused") {
  fixture const here;
  CHECK_THROWS_AS(llm::plain_text("/no/such/text", here.tokens, 1), llm::error);
}
