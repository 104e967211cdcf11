#pragma once

#include <stdexcept>

namespace llm {

/// Anything a user can cause: a broken file, a bad option, a text that is too short. The message names it and what was expected.
struct error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace llm
