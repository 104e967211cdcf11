#pragma once

// Patterns that turn queries and keys as they read them, for attention_calls.hpp.

#include <cmath>
#include <string>
#include <type_traits>

#include <lacuna/lacuna.hpp>

#include "attention.hpp"
#include "error.hpp"

namespace llm::detail {

template <class T, class Pattern, int HeadSize>
struct extended_configuration : lacuna::attention_defaults<T, HeadSize> {
  using pattern = Pattern;
  using rope = lacuna::attend_rope;
};

/// Calls work(std::type_identity<pattern>) with the stages whose rule the spec names.
template <class Work>
void with_scan_rule(scan_rule rule, Work const& work) {
  switch (rule) {
    case scan_rule::halving:
      return work(std::type_identity<lacuna::infinite_hip>{});
    case scan_rule::exact:
      return work(std::type_identity<lacuna::infinite_hip_exact>{});
    case scan_rule::midpoint:
      return work(std::type_identity<lacuna::infinite_hip_of<lacuna::midpoint_halving>>{});
    case scan_rule::quarter:
      return work(std::type_identity<lacuna::infinite_hip_of<lacuna::spaced_tokens<64>>>{});
    case scan_rule::mean:
      return work(std::type_identity<lacuna::infinite_hip_of<lacuna::key_mean>>{});
    case scan_rule::bound:
      return work(std::type_identity<lacuna::infinite_hip_of<lacuna::min_max_bound>>{});
  }
}

template <class Pattern>
Pattern infinite_hip_of_layer(pattern_spec const& spec, layer_place const& place) {
  lacuna::infinite_hip_layer const at{.layer = place.layer, .table = place.table};
  auto pattern = spec.first == 3 ? lacuna::infinite_hip_3k<Pattern>(at) : lacuna::infinite_hip_5k<Pattern>(at);
  if (spec.rule == scan_rule::bound) pattern.rope.style = lacuna::scan_style::relative;  // bounds cannot turn
  return pattern;
}

/// Calls work(pattern, rope) with the library's type for it.
template <class Work>
void with_extended_pattern(pattern_spec const& spec, layer_place const& place, Work const& work) {
  using lacuna::attend_style;
  auto const rope = [&](attend_style style) {
    return lacuna::attend_rope{.style = style, .table = place.table, .trained = place.trained_tokens};
  };
  switch (spec.kind) {
    case pattern_kind::infinite_hip:
      return with_scan_rule(spec.rule, [&]<class Pattern>(std::type_identity<Pattern>) {
        work(infinite_hip_of_layer<Pattern>(spec, place), lacuna::infinite_hip_rope(place.table));
      });
    case pattern_kind::streaming:
      return work(lacuna::a_shape{.sinks = 256, .window = 1024}, rope(attend_style::streaming));
    case pattern_kind::dense_extend:
      return work(lacuna::dense{}, rope(attend_style::dynamic_extend));
    default:
      return work(lacuna::dense{}, rope(attend_style::absolute));
  }
}

/// Calls work(sparse_attention).
template <class T, class Work>
void with_extended_attention(pattern_spec const& spec, int head_size, layer_place const& place, Work const& work) {
  auto const sized = [&](auto size) {
    with_extended_pattern(spec, place, [&](auto const& pattern, lacuna::attend_rope const& rope) {
      using config = extended_configuration<T, std::remove_cvref_t<decltype(pattern)>, size()>;
      float const scale = place.logit_factor / std::sqrt(static_cast<float>(size()));
      work(lacuna::sparse_attention<config>{pattern, {.scale = scale, .rope = rope}});
    });
  };
  if (head_size == 64) return sized(std::integral_constant<int, 64>{});
  if (head_size == 128) return sized(std::integral_constant<int, 128>{});
  throw error("head size is " + std::to_string(head_size) + ", expected 64 or 128 for pattern '" + text_of(spec) + "'");
}

}  // namespace llm::detail
