#include "progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace llm {

progress::progress() : is_terminal_(::isatty(STDERR_FILENO) == 1) {}

progress::~progress() { clear(); }

void progress::show(std::string const& label, double done) {
  if (!is_terminal_) return;
  constexpr int width = 30;
  int const filled = std::clamp(static_cast<int>(done * width), 0, width);
  std::string const bar = std::string(static_cast<std::size_t>(filled), '#') + std::string(static_cast<std::size_t>(width - filled), '.');
  std::fprintf(stderr, "\r\x1b[K[%s] %3.0f%% %s", bar.c_str(), done * 100, label.c_str());
  std::fflush(stderr);
  is_drawn_ = true;
}

void progress::clear() {
  if (is_drawn_) std::fprintf(stderr, "\r\x1b[K");
  is_drawn_ = false;
}

}  // namespace llm
