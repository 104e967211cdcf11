#pragma once

#include <string_view>
#include <vector>

namespace llm {

/// How text is cut into words before byte pairs are merged inside each.
enum class pre_tokenizer { smollm, qwen2 };

/// Throws llm::error for a name that is neither `smollm` nor `qwen2`.
pre_tokenizer pre_tokenizer_from(std::string_view name);

/// Consecutive pieces that together are the text.
std::vector<std::string_view> split_words(pre_tokenizer kind, std::string_view text);

}  // namespace llm
