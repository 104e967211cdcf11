#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace llm {

/// What a file holds, fit to be printed: other characters than printable ASCII become '?', and long texts are cut.
inline std::string printable(std::string_view text) {
  constexpr std::size_t longest = 80;
  std::string result;
  for (char const c : text.substr(0, longest)) result += (c >= 32 && c < 127) ? c : '?';
  return text.size() > longest ? result + "..." : result;
}

inline std::string quoted(std::string_view text) {
  std::string result = "'";
  result += printable(text);
  return result += "'";
}

}  // namespace llm
