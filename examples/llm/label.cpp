#include "label.hpp"

#include <array>

namespace llm {
namespace {

constexpr int scale = 2;
constexpr int glyph_width = 3;
constexpr int glyph_height = 6;

/// Rows of three dots, top to bottom, as octal digits: 4 is the left dot.
using glyph = std::array<int, glyph_height>;

constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz0123456789:_.-";
constexpr std::array<glyph, letters.size()> glyphs{{
    {0, 3, 5, 5, 3, 0}, {4, 6, 5, 5, 6, 0}, {0, 3, 4, 4, 3, 0}, {1, 3, 5, 5, 3, 0}, {0, 2, 7, 4, 3, 0}, {1, 2, 7, 2, 2, 0},
    {0, 3, 5, 3, 1, 6}, {4, 6, 5, 5, 5, 0}, {2, 0, 2, 2, 2, 0}, {1, 0, 1, 1, 5, 2}, {4, 5, 6, 5, 5, 0}, {6, 2, 2, 2, 1, 0},
    {0, 7, 7, 5, 5, 0}, {0, 6, 5, 5, 5, 0}, {0, 2, 5, 5, 2, 0}, {0, 6, 5, 6, 4, 4}, {0, 3, 5, 3, 1, 1}, {0, 3, 4, 4, 4, 0},
    {0, 3, 6, 1, 6, 0}, {2, 7, 2, 2, 1, 0}, {0, 5, 5, 5, 3, 0}, {0, 5, 5, 5, 2, 0}, {0, 5, 5, 7, 7, 0}, {0, 5, 2, 2, 5, 0},
    {0, 5, 5, 3, 1, 6}, {0, 7, 1, 4, 7, 0}, {2, 5, 5, 5, 2, 0}, {2, 6, 2, 2, 7, 0}, {6, 1, 2, 4, 7, 0}, {6, 1, 2, 1, 6, 0},
    {5, 5, 7, 1, 1, 0}, {7, 4, 6, 1, 6, 0}, {3, 4, 6, 5, 2, 0}, {7, 1, 2, 2, 2, 0}, {2, 5, 2, 5, 2, 0}, {2, 5, 3, 1, 6, 0},
    {0, 2, 0, 2, 0, 0}, {0, 0, 0, 0, 7, 0}, {0, 0, 0, 0, 2, 0}, {0, 0, 7, 0, 0, 0},
}};

void draw_dot(image& picture, int x, int y, std::uint8_t index) {
  for (int dy = 0; dy < scale; ++dy) {
    for (int dx = 0; dx < scale; ++dx) {
      if (x + dx < picture.width && y + dy < picture.height) picture.set(x + dx, y + dy, index);
    }
  }
}

}  // namespace

void draw_label(image& picture, int x, int y, std::string_view text, std::uint8_t index) {
  for (char const c : text) {
    auto const found = letters.find(c);
    for (int row = 0; found != std::string_view::npos && row < glyph_height; ++row) {
      for (int column = 0; column < glyph_width; ++column) {
        bool const is_set = ((glyphs[found][static_cast<std::size_t>(row)] >> (glyph_width - 1 - column)) & 1) != 0;
        if (is_set) draw_dot(picture, x + column * scale, y + row * scale, index);
      }
    }
    x += (glyph_width + 1) * scale;
  }
}

}  // namespace llm
