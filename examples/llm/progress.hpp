#pragma once

#include <string>

namespace llm {

/// A bar on standard error, if that is a terminal; otherwise nothing.
class progress {
 public:
  progress();
  ~progress();
  progress(progress const&) = delete;
  progress& operator=(progress const&) = delete;

  /// Draws the bar; `done` in [0, 1].
  void show(std::string const& label, double done);
  void clear();

 private:
  bool is_terminal_;
  bool is_drawn_ = false;
};

}  // namespace llm
