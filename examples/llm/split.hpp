#pragma once

#include <string_view>
#include <vector>

namespace llm {

/// The parts of a text between separators; one part, perhaps empty, if there is none.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    auto const at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

}  // namespace llm
