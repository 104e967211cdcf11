#include "pattern_spec.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "error.hpp"
#include "split.hpp"

namespace llm {
namespace {

struct pattern_form {
  std::string_view name;
  pattern_kind kind;
  std::string_view form;
  std::size_t amounts;
  std::array<std::int32_t, 2> smallest;
};

constexpr std::array<pattern_form, 10> forms{{
    {"dense", pattern_kind::dense, "dense", 0, {0, 0}},
    {"a_shape", pattern_kind::a_shape, "a_shape:SINKS:WINDOW", 2, {0, 1}},
    {"vertical_slash", pattern_kind::vertical_slash, "vertical_slash:VERTICALS:SLASHES", 2, {0, 1}},
    {"block_sparse", pattern_kind::block_sparse, "block_sparse:BLOCKS", 1, {1, 0}},
    {"per_head", pattern_kind::per_head, "per_head", 0, {0, 0}},
    {"infinite_hip", pattern_kind::infinite_hip, "infinite_hip:3k|5k[:RULE]", 0, {0, 0}},
    {"streaming", pattern_kind::streaming, "streaming", 0, {0, 0}},
    {"dense_ntk", pattern_kind::dense_ntk, "dense_ntk", 0, {0, 0}},
    {"dense_yarn", pattern_kind::dense_yarn, "dense_yarn", 0, {0, 0}},
    {"dense_extend", pattern_kind::dense_extend, "dense_extend", 0, {0, 0}},
}};

constexpr std::array<std::string_view, 6> rules{"halving", "exact", "midpoint", "quarter", "mean", "bound"};  // as scan_rule has them

pattern_form const& form_of(pattern_kind kind) {
  for (auto const& form : forms) {
    if (form.kind == kind) return form;
  }
  throw error("unknown pattern kind");
}

std::int32_t parse_amount(std::string_view text, std::int32_t smallest, std::string_view pattern) {
  constexpr std::int32_t largest = 1 << 30;
  std::int32_t value = 0;
  auto const [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size() || value < smallest || value > largest) {
    throw error("pattern '" + std::string(pattern) + "': amount '" + std::string(text) + "' is not a whole number from " +
                std::to_string(smallest) + " to " + std::to_string(largest));
  }
  return value;
}

pattern_spec parse_infinite_hip(std::vector<std::string_view> const& parts, std::string_view text) {
  pattern_spec spec{.kind = pattern_kind::infinite_hip};
  bool const is_sized = parts.size() >= 2 && parts.size() <= 3 && (parts[1] == "3k" || parts[1] == "5k");
  if (is_sized) spec.first = parts[1] == "3k" ? 3 : 5;
  auto const rule = parts.size() == 3 ? std::find(rules.begin(), rules.end(), parts[2]) : rules.begin();
  if (!is_sized || rule == rules.end()) {
    std::string known;
    for (auto const name : rules) known.append(known.empty() ? "" : ", ").append(name);
    throw error("pattern '" + std::string(text) + "', expected infinite_hip:3k or infinite_hip:5k, or one of these behind it: " + known);
  }
  spec.rule = static_cast<scan_rule>(rule - rules.begin());
  return spec;
}

pattern_spec parse_pattern(std::string_view text) {
  auto const parts = split(text, ':');
  if (parts[0] == "infinite_hip") return parse_infinite_hip(parts, text);
  for (auto const& form : forms) {
    if (form.name != parts[0]) continue;
    if (parts.size() != form.amounts + 1) {
      throw error("pattern '" + std::string(text) + "' has " + std::to_string(parts.size() - 1) + " amounts, expected " +
                  std::string(form.form));
    }
    pattern_spec spec{.kind = form.kind};
    if (form.amounts > 0) spec.first = parse_amount(parts[1], form.smallest[0], text);
    if (form.amounts > 1) spec.second = parse_amount(parts[2], form.smallest[1], text);
    return spec;
  }
  std::string known;
  for (auto const& form : forms) known.append(known.empty() ? "" : ", ").append(form.form);
  throw error("pattern '" + std::string(text) + "' is not known; expected one of " + known);
}

}  // namespace

std::vector<pattern_spec> parse_patterns(std::string_view list) {
  std::vector<pattern_spec> patterns;
  for (auto const part : split(list, ',')) patterns.push_back(parse_pattern(part));
  return patterns;
}

std::string text_of(pattern_spec const& pattern) {
  auto const& form = form_of(pattern.kind);
  std::string text(form.name);
  if (pattern.kind == pattern_kind::infinite_hip) {
    text.append(":").append(std::to_string(pattern.first)).append("k");
    if (pattern.rule != scan_rule::halving) text.append(":").append(rules[static_cast<std::size_t>(pattern.rule)]);
  }
  if (form.amounts > 0) text.append(":").append(std::to_string(pattern.first));
  if (form.amounts > 1) text.append(":").append(std::to_string(pattern.second));
  return text;
}

pattern_spec pattern_of_head(pattern_spec const& pattern, int head) {
  if (pattern.kind != pattern_kind::per_head) return pattern;
  if (head % 2 == 1) return {.kind = pattern_kind::a_shape, .first = 64, .second = 1024};
  return {.kind = pattern_kind::vertical_slash, .first = 500, .second = 500};
}

}  // namespace llm
