#include "png.hpp"

#include <span>
#include <string_view>

#include "deflate.hpp"

namespace llm {
namespace {

std::uint32_t crc32(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (char const c : bytes) {
    crc ^= static_cast<std::uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0xEDB88320U : crc >> 1;
  }
  return ~crc;
}

void append_number(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
}

void append_chunk(std::string& out, std::string_view kind, std::string_view content) {
  append_number(out, static_cast<std::uint32_t>(content.size()));
  auto const begin = out.size();
  out.append(kind).append(content);
  append_number(out, crc32(std::string_view(out).substr(begin)));
}

std::string header_of(image const& picture) {
  std::string header;
  append_number(header, static_cast<std::uint32_t>(picture.width));
  append_number(header, static_cast<std::uint32_t>(picture.height));
  return header + std::string("\x08\x03\x00\x00\x00", 5);  // 8 bits, palette, the only compression and filtering there are, not interlaced
}

std::string palette_of(image const& picture) {
  std::string palette;
  for (auto const& entry : picture.palette) {
    for (auto const part : {entry.red, entry.green, entry.blue}) palette += static_cast<char>(part);
  }
  return palette;
}

/// Rows, each after a filter byte of 0.
std::string pixels_of(image const& picture) {
  auto const width = static_cast<std::size_t>(picture.width);
  std::vector<std::uint8_t> rows;
  for (std::size_t y = 0; y < static_cast<std::size_t>(picture.height); ++y) {
    rows.push_back(0);
    auto const row = std::span(picture.indices).subspan(y * width, width);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  auto const stream = zlib_stream(rows);
  return {stream.begin(), stream.end()};
}

}  // namespace

std::string png_of(image const& picture) {
  std::string out("\x89PNG\r\n\x1a\n", 8);
  append_chunk(out, "IHDR", header_of(picture));
  append_chunk(out, "PLTE", palette_of(picture));
  append_chunk(out, "IDAT", pixels_of(picture));
  append_chunk(out, "IEND", {});
  return out;
}

}  // namespace llm
