#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace llm {

struct colour {
  std::uint8_t red, green, blue;

  friend bool operator==(colour const&, colour const&) = default;
};

/// An image of up to 256 colours.
struct image {
  int width;
  int height;
  std::vector<colour> palette;        // 1 to 256
  std::vector<std::uint8_t> indices;  // [height, width]

  void set(int x, int y, std::uint8_t index) {
    indices[static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x)] = index;
  }
};

/// The bytes of a PNG file.
std::string png_of(image const& picture);

}  // namespace llm
