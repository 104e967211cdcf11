#pragma once

#include <cstdint>
#include <optional>

#include <lacuna/rope/rope_table.hpp>

#include "attention.hpp"
#include "model_config.hpp"
#include "pattern_spec.hpp"

namespace llm {

/// Tables of angles, in host memory, for a prompt whose pattern sets positions.
class extended_positions {
 public:
  /// `prompt` tokens are read with the pattern, `capacity` is the most that will ever be.
  extended_positions(model_config const& config, pattern_spec const& pattern, std::int64_t prompt, std::int64_t capacity);

  layer_place place_of(int layer) const;

  /// The model's own angles at true positions: what dense attention would see.
  layer_place unscaled_place() const { return {.table = plain_.view()}; }

 private:
  std::int32_t trained_tokens_;
  lacuna::host_rope_table plain_;
  std::optional<lacuna::host_rope_table> scaled_;
  float logit_factor_ = 1;
};

}  // namespace llm
