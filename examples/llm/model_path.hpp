#pragma once

#include <filesystem>
#include <string>

namespace llm {

/// A GGUF file's path as given, or where fetch_model puts the model of that name. Throws llm::error if there is no such file.
std::filesystem::path find_model(std::string const& name_or_file);

}  // namespace llm
