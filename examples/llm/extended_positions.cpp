#include "extended_positions.hpp"

#include <algorithm>
#include <string>

#include <lacuna/rope/rope_frequencies.hpp>

#include "error.hpp"

namespace llm {
namespace {

constexpr std::int64_t spare_positions = 2048;  // styles place queries beyond windows and chunks

lacuna::rope_pairing pairing_of(model_config const& config) {
  return config.pairs == rope_pairs::halves ? lacuna::rope_pairing::halves : lacuna::rope_pairing::neighbours;
}

}  // namespace

extended_positions::extended_positions(model_config const& config, pattern_spec const& pattern, std::int64_t prompt, std::int64_t capacity)
    : trained_tokens_(static_cast<std::int32_t>(config.trained_tokens)),
      plain_(lacuna::rope_frequencies(config.rope_base, config.head_size), capacity + spare_positions, pairing_of(config)) {
  if (config.trained_tokens < 1 || config.trained_tokens > 0x7fffffff)
    throw error("context_length is " + std::to_string(config.trained_tokens) + "; this pattern expects 1 to 2^31 - 1 trained tokens");
  double const stretch = std::max(1.0, static_cast<double>(prompt) / static_cast<double>(config.trained_tokens));
  if (pattern.kind == pattern_kind::dense_ntk) {
    auto const base = lacuna::ntk_base(config.rope_base, stretch, config.head_size);
    scaled_.emplace(lacuna::rope_frequencies(base, config.head_size), capacity, pairing_of(config));
  } else if (pattern.kind == pattern_kind::dense_yarn) {
    lacuna::yarn_scaling const yarn{
        .base = config.rope_base, .stretch = stretch, .trained_tokens = static_cast<double>(config.trained_tokens)};
    scaled_.emplace(yarn.frequencies(config.head_size), capacity, pairing_of(config));
    logit_factor_ = static_cast<float>(yarn.logit_factor());
  }
}

layer_place extended_positions::place_of(int layer) const {
  auto const table = scaled_ ? scaled_->view() : plain_.view();
  return {.layer = layer, .table = table, .trained_tokens = trained_tokens_, .logit_factor = logit_factor_};
}

}  // namespace llm
