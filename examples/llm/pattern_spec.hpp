#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llm {

enum class pattern_kind { dense, a_shape, vertical_slash, block_sparse, per_head };

/// One pattern as the command line spells it: a name and its amounts.
struct pattern_spec {
  pattern_kind kind;
  std::int32_t first = 0;   // a_shape: sinks; vertical_slash: verticals; block_sparse: blocks kept
  std::int32_t second = 0;  // a_shape: window; vertical_slash: slashes

  friend bool operator==(pattern_spec const&, pattern_spec const&) = default;
};

/// `dense`, `a_shape:SINKS:WINDOW`, `vertical_slash:VERTICALS:SLASHES`, `block_sparse:BLOCKS` or `per_head`, separated by commas.
/// Throws llm::error naming what is wrong.
std::vector<pattern_spec> parse_patterns(std::string_view list);

std::string text_of(pattern_spec const& pattern);

/// The profile of `per_head` without a file: odd heads a_shape:64:1024, even heads vertical_slash:500:500.
pattern_spec pattern_of_head(pattern_spec const& pattern, int head);

}  // namespace llm
