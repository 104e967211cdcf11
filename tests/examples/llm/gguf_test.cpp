#include "gguf.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include "error.hpp"
#include "gguf_builder.hpp"

namespace {

gguf_builder small_file() {
  gguf_builder file;
  file.text("name", "small");
  file.u32("size", 7);
  file.f32("ratio", 0.5F);
  file.texts("words", {"a", "", "long word"});
  file.integers("kinds", {1, -2, 3});
  file.tensor("m", {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  file.tensor("v", {3}, {1, 2, 3});
  return file;
}

/// What reading says, or "" if it accepts the file.
std::string complaint(std::vector<std::byte> const& bytes) {
  try {
    llm::gguf_view const view(bytes);
    return "";
  } catch (llm::error const& failure) {
    return failure.what();
  }
}

bool complains(std::vector<std::byte> const& bytes, std::string_view about) { return complaint(bytes).find(about) != std::string::npos; }

void overwrite(std::vector<std::byte>& bytes, std::size_t at, std::uint64_t value) { std::memcpy(bytes.data() + at, &value, sizeof value); }

}  // namespace

TEST_CASE("gguf_view finds values and tensors") {
  auto const bytes = small_file().finish();
  llm::gguf_view const view(bytes);
  CHECK(view.text("name") == "small");
  CHECK(view.integer("size") == 7);
  CHECK(view.real("ratio") == 0.5);
  CHECK(view.texts("words") == std::vector<std::string_view>{"a", "", "long word"});
  CHECK(view.integers("kinds") == std::vector<std::int32_t>{1, -2, 3});
  CHECK_FALSE(view.find_integer("absent"));
  auto const* const m = view.find_tensor("m");
  REQUIRE(m != nullptr);
  CHECK(m->rows() == 2);
  CHECK(m->row_bytes() == 16);
  float last = 0;
  std::memcpy(&last, m->bytes.data() + 28, sizeof last);
  CHECK(last == 8);
  CHECK(view.find_tensor("absent") == nullptr);
}

TEST_CASE("gguf_view accepts version 2 and refuses others") {
  CHECK(complaint(small_file().finish(2)).empty());
  CHECK(complains(small_file().finish(1), "version 1 is not supported"));
  CHECK(complains(small_file().finish(0x03000000), "big-endian"));
}

TEST_CASE("gguf_view names what a file lacks") {
  auto const bytes = small_file().finish();
  llm::gguf_view const view(bytes);
  CHECK_THROWS_WITH_AS(view.text("absent"), "metadata value 'absent' is missing", llm::error);
  CHECK_THROWS_WITH_AS(view.text("size"), "metadata value 'size' is a number, expected a text", llm::error);
  CHECK_THROWS_WITH_AS(view.integer("name"), "metadata value 'name' is a text, expected a number", llm::error);
  CHECK_THROWS_AS(view.integer("ratio"), llm::error);
  CHECK_THROWS_WITH_AS(view.texts("name"), "metadata value 'name' is a single value, expected an array", llm::error);
  CHECK_THROWS_WITH_AS(view.text("words"), "metadata value 'words' is an array, expected a single value", llm::error);
  CHECK_THROWS_AS(view.integers("words"), llm::error);
}

TEST_CASE("gguf_view refuses what is no GGUF file") {
  CHECK(complains({}, "not a GGUF file"));
  CHECK(complains(std::vector<std::byte>(64), "not a GGUF file"));
}

TEST_CASE("gguf_view refuses counts and lengths past the end of the file") {
  auto const good = small_file().finish();
  auto bad = good;
  overwrite(bad, 8, ~std::uint64_t{0});
  CHECK(complains(bad, "the number of tensors is 18446744073709551615"));
  bad = good;
  overwrite(bad, 16, 1U << 30);
  CHECK(complains(bad, "the number of metadata values"));
  bad = good;
  overwrite(bad, 24, ~std::uint64_t{0} - 3);  // length of the first key
  CHECK(complains(bad, "a metadata key needs"));
  bad = good;
  overwrite(bad, 40, ~std::uint64_t{0});  // length of the first text
  CHECK(complains(bad, "metadata value 'name' needs"));
}

TEST_CASE("gguf_view refuses tensors that do not fit") {
  std::vector<std::byte> const none;
  auto const with = [&](std::vector<std::uint64_t> const& extents, std::uint32_t type) {
    gguf_builder file;
    file.tensor("t", extents, type, std::vector<std::byte>(64));
    return file.finish();
  };
  CHECK(complaint(with({16}, 0)).empty());
  CHECK(complains(with({17}, 0), "tensor 't' needs 17 blocks of 4 bytes"));
  CHECK(complains(with({0}, 0), "extent of 0"));
  CHECK(complains(with({1ULL << 40, 1ULL << 40}, 0), "more elements than 64 bits"));
  CHECK(complains(with({1ULL << 62, 1}, 0), "truncated or broken"));
  CHECK(complains(with({}, 0), "rank 0"));
  CHECK(complains(with({1, 1, 1, 1, 1}, 0), "rank 5"));
  CHECK(complains(with({33}, 2), "expected a multiple of 32 for type Q4_0"));
  CHECK(complains(with({256}, 13), "tensor type Q5_K of 't' is not supported; supported: F32, F16, BF16"));
  CHECK(complains(with({256}, 77), "tensor type number 77"));
}

TEST_CASE("gguf_view refuses names that appear twice") {
  gguf_builder values;
  values.u32("same", 1);
  values.u32("same", 2);
  CHECK(complains(values.finish(), "metadata key 'same' appears twice"));
  gguf_builder tensors;
  tensors.tensor("same", {1}, {1});
  tensors.tensor("same", {1}, {2});
  CHECK(complains(tensors.finish(), "tensor 'same' appears twice"));
}

TEST_CASE("gguf_view refuses an alignment that is no power of two") {
  for (std::uint32_t const alignment : {0U, 3U, 1U << 31}) {
    gguf_builder file;
    file.u32("general.alignment", alignment);
    CHECK(complains(file.finish(), "expected a power of two"));
  }
}

TEST_CASE("gguf_view complains about every truncation that loses something") {
  auto const good = small_file().finish();
  auto const used = good.size();
  for (std::size_t size = 0; size < used; ++size) {
    CAPTURE(size);
    CHECK_FALSE(complaint({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}).empty());
  }
}
