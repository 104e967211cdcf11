#include "model_path.hpp"

#include <cstdlib>

#include "error.hpp"

namespace llm {
namespace {

namespace fs = std::filesystem;

/// $XDG_CACHE_HOME/lacuna/models, by default ~/.cache/lacuna/models; the same as in fetch_model.
fs::path model_folder() {
  if (char const* const cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') return fs::path(cache) / "lacuna/models";
  char const* const home = std::getenv("HOME");
  return fs::path(home != nullptr ? home : ".") / ".cache/lacuna/models";
}

}  // namespace

fs::path find_model(std::string const& name_or_file) {
  bool const is_name = name_or_file == "smollm2-135m" || name_or_file == "qwen2.5-coder-1.5b";
  if (!is_name) {
    if (fs::exists(name_or_file)) return name_or_file;
    throw error("--model '" + name_or_file + "' is neither smollm2-135m, qwen2.5-coder-1.5b nor an existing GGUF file");
  }
  auto const path = model_folder() / (name_or_file + ".gguf");
  if (!fs::exists(path)) {
    throw error("model " + name_or_file + " is not at " + path.string() + "; fetch it with examples/llm/fetch_model " + name_or_file);
  }
  return path;
}

}  // namespace llm
