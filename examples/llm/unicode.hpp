#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace llm {

enum class character_class : std::uint8_t { letter, number, space, other };  // \p{L}, \p{N}, White_Space, the rest

character_class class_of(std::uint32_t code_point);

struct character {
  std::uint32_t code_point;  // U+FFFD for a byte that is not valid UTF-8
  std::size_t bytes;         // 1 to 4; 0 at the end of the text
  character_class kind;
};

/// The character that starts at `position`.
character character_at(std::string_view text, std::size_t position);

void append_utf8(std::string& text, std::uint32_t code_point);

}  // namespace llm
