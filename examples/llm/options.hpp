#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pattern_spec.hpp"
#include "task.hpp"

namespace llm {

enum class backend { host, cuda };

std::string_view name_of(backend where);

/// The command line.
struct options {
  std::string model = "smollm2-135m";  // a name that fetch_model knows, or the path of a GGUF file
  std::optional<std::string> text;
  std::vector<std::int64_t> lengths{4096};
  std::vector<task_kind> tasks{task_kind::passkey};
  std::optional<int> passkeys;  // none: as many of ten as fit `seconds`
  std::uint64_t seed = 1;
  std::vector<pattern_spec> patterns;
  std::optional<backend> where;  // none: a GPU if there is one
  int threads = 0;               // 0: one per hardware thread
  std::int64_t chunk = 0;        // 0: the whole prompt at once
  std::int64_t seconds = 210;    // for the whole command when `passkeys` is not given
  std::optional<std::string> json;
  std::optional<std::string> png;
  bool help = false;
};

/// Throws llm::error naming the option and what was expected.
options parse_options(std::span<char const* const> arguments);

std::string_view help_text();

}  // namespace llm
