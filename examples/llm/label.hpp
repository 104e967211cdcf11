#pragma once

#include <string_view>

#include "png.hpp"

namespace llm {

inline constexpr int label_height = 14;

/// Writes small letters, digits and `:_.-` in dots twice the size of a pixel; other characters are blanks.
void draw_label(image& picture, int x, int y, std::string_view text, std::uint8_t index);

}  // namespace llm
