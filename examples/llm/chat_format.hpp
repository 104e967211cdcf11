#pragma once

#include <string>
#include <string_view>

#include "gguf.hpp"

namespace llm {

/// What stands before and after the user's words in a conversation of one turn, up to where the model's answer begins.
struct chat_format {
  std::string before;
  std::string after;
};

/// Reads the default system turn out of the file's chat template. Throws llm::error if the template is not of the ChatML kind
/// (`<|im_start|>role\n...<|im_end|>\n`), which both supported models use.
chat_format read_chat_format(gguf_view const& file);
chat_format chat_format_from(std::string_view chat_template);

}  // namespace llm
