#include "pattern_spec.hpp"

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

constexpr std::array<pattern_form, 5> forms{{
    {"dense", pattern_kind::dense, "dense", 0, {0, 0}},
    {"a_shape", pattern_kind::a_shape, "a_shape:SINKS:WINDOW", 2, {0, 1}},
    {"vertical_slash", pattern_kind::vertical_slash, "vertical_slash:VERTICALS:SLASHES", 2, {0, 1}},
    {"block_sparse", pattern_kind::block_sparse, "block_sparse:BLOCKS", 1, {1, 0}},
    {"per_head", pattern_kind::per_head, "per_head", 0, {0, 0}},
}};

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

pattern_spec parse_pattern(std::string_view text) {
  auto const parts = split(text, ':');
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
