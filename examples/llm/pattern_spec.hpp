#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llm {

enum class pattern_kind {
  dense,
  a_shape,
  vertical_slash,
  block_sparse,
  per_head,
  infinite_hip,  // from here on keys are kept unturned and positions are the pattern's
  streaming,
  dense_ntk,
  dense_yarn,
  dense_extend,
};

/// How InfiniteHiP's first two stages judge a chunk.
enum class scan_rule { halving, exact, midpoint, quarter, mean, bound };

/// One pattern as the command line spells it: a name and its amounts.
struct pattern_spec {
  pattern_kind kind;
  std::int32_t first = 0;   // a_shape: sinks; vertical_slash: verticals; block_sparse: blocks kept; infinite_hip: thousands of tokens read
  std::int32_t second = 0;  // a_shape: window; vertical_slash: slashes
  scan_rule rule = scan_rule::halving;  // infinite_hip

  friend bool operator==(pattern_spec const&, pattern_spec const&) = default;
};

/// Patterns that turn queries and keys as they read them, for texts longer than the model was trained for.
constexpr bool sets_positions(pattern_spec const& pattern) { return pattern.kind >= pattern_kind::infinite_hip; }

/// `dense`, `a_shape:SINKS:WINDOW`, `vertical_slash:VERTICALS:SLASHES`, `block_sparse:BLOCKS`, `per_head`, `infinite_hip:3k` or `:5k` with
/// or without a rule behind it, `streaming`, `dense_ntk`, `dense_yarn` or `dense_extend`, separated by commas. Throws llm::error naming
/// what is wrong.
std::vector<pattern_spec> parse_patterns(std::string_view list);

std::string text_of(pattern_spec const& pattern);

/// The profile of `per_head` without a file: odd heads a_shape:64:1024, even heads vertical_slash:500:500.
pattern_spec pattern_of_head(pattern_spec const& pattern, int head);

}  // namespace llm
