#include "unicode.hpp"

#include <algorithm>
#include <iterator>

#include "unicode_ranges.hpp"

namespace llm {
namespace {

constexpr std::uint32_t replacement = 0xFFFD;

template <std::size_t Count>
bool contains(code_point_range const (&ranges)[Count], std::uint32_t code_point) {
  auto const after = std::upper_bound(std::begin(ranges), std::end(ranges), code_point,
                                      [](std::uint32_t point, code_point_range const& range) { return point < range.first; });
  return after != std::begin(ranges) && code_point <= std::prev(after)->last;
}

bool is_space(std::uint32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

struct decoded {
  std::uint32_t code_point;
  std::size_t bytes;
};

decoded decode(std::string_view text, std::size_t position) {
  auto const byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[position + i]); };
  std::uint32_t const lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  std::size_t const length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || length > text.size() - position) return {replacement, 1};
  std::uint32_t point = lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {replacement, 1};
    point = (point << 6) | (byte(i) & 0x3FU);
  }
  constexpr std::uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  bool const surrogate = point >= 0xD800 && point < 0xE000;
  if (point < smallest[length] || surrogate || point > 0x10FFFF) return {replacement, 1};
  return {point, length};
}

}  // namespace

character_class class_of(std::uint32_t code_point) {
  if (is_space(code_point)) return character_class::space;
  if (contains(letter_ranges, code_point)) return character_class::letter;
  if (contains(number_ranges, code_point)) return character_class::number;
  return character_class::other;
}

character character_at(std::string_view text, std::size_t position) {
  if (position >= text.size()) return {0, 0, character_class::other};
  auto const [code_point, bytes] = decode(text, position);
  return {code_point, bytes, class_of(code_point)};
}

void append_utf8(std::string& text, std::uint32_t code_point) {
  auto const put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code_point < 0x80) return put(code_point);
  if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
  }
  put(0x80 | (code_point & 0x3F));
}

}  // namespace llm
