#include "png.hpp"

#include <doctest/doctest.h>

#include <span>
#include <string>
#include <vector>

#include "deflate.hpp"
#include "inflate.hpp"
#include "label.hpp"
#include "random.hpp"

namespace {

using bytes = std::vector<std::uint8_t>;

std::uint32_t number_at(std::string const& file, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<std::uint8_t>(file[at + i]);
  return value;
}

llm::image sample() {
  llm::image picture{.width = 30, .height = 20, .palette = {{255, 255, 255}, {1, 2, 3}}, .indices = bytes(600)};
  llm::draw_label(picture, 2, 3, "a:9", 1);
  return picture;
}

}  // namespace

TEST_CASE("a zlib stream unpacks to what went in") {
  llm::random_source random(5);
  std::vector<bytes> samples{{}, {7}, bytes(100'000, 42)};
  for (std::uint64_t const range : {0U, 1U, 3U, 255U}) {
    bytes sample(70'000);
    for (auto& byte : sample) byte = static_cast<std::uint8_t>(random.between(0, range));
    samples.push_back(sample);
  }
  for (auto const& sample : samples) CHECK(inflate(llm::zlib_stream(sample)) == sample);
}

TEST_CASE("repeats at the largest distance and longer than the longest code survive") {
  bytes sample(33'000);
  for (std::size_t i = 0; i < sample.size(); ++i) sample[i] = static_cast<std::uint8_t>(i * i >> 7);
  sample.insert(sample.end(), sample.end() - 32'768, sample.end());
  sample.insert(sample.end(), 1000, 9);
  auto const stream = llm::zlib_stream(sample);
  CHECK(inflate(stream) == sample);
  CHECK(stream.size() < sample.size());
}

TEST_CASE("a PNG file has the four chunks with their sizes, and its pixels are the image's") {
  auto const picture = sample();
  auto const file = llm::png_of(picture);
  CHECK(file.starts_with("\x89PNG\r\n\x1a\n"));
  std::string kinds;
  bytes pixels;
  for (std::size_t at = 8; at < file.size(); at += 12 + number_at(file, at)) {
    auto const kind = file.substr(at + 4, 4);
    kinds += kind + " ";
    if (kind == "IHDR") CHECK(number_at(file, at + 8) == 30);
    if (kind == "IHDR") CHECK(number_at(file, at + 12) == 20);
    if (kind == "PLTE") CHECK(number_at(file, at) == 6);
    if (kind == "IDAT")
      pixels.assign(file.begin() + static_cast<std::ptrdiff_t>(at) + 8,
                    file.begin() + static_cast<std::ptrdiff_t>(at + 8 + number_at(file, at)));
  }
  CHECK(kinds == "IHDR PLTE IDAT IEND ");
  CHECK(file.ends_with(std::string("\x00\x00\x00\x00IEND\xAE\x42\x60\x82", 12)));
  auto const rows = inflate(pixels);
  REQUIRE(rows.size() == 31 * 20);
  for (std::size_t y = 0; y < 20; ++y) {
    CHECK(rows[y * 31] == 0);
    for (std::size_t x = 0; x < 30; ++x) CHECK(rows[y * 31 + 1 + x] == picture.indices[y * 30 + x]);
  }
}

TEST_CASE("labels stay inside the picture") {
  llm::image picture{.width = 9, .height = 5, .palette = {{0, 0, 0}, {9, 9, 9}}, .indices = bytes(45)};
  llm::draw_label(picture, 4, 2, "wide label", 1);
  CHECK(picture.indices.size() == 45);
}
