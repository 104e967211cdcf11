#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "attention.hpp"
#include "model_config.hpp"
#include "tokenizer.hpp"

namespace llm {

enum class comparison { none, with_dense };  // whether a prefill counts pairs and measures the attention output's error

/// Queries, keys of one layer of a prefill, shown to whoever wants to draw them; valid during the call only.
using layer_observer = std::function<void(int layer, attention_tensors const&)>;

struct prefill_request {
  pattern_spec pattern{.kind = pattern_kind::dense};
  std::int64_t chunk = 0;      // tokens that pass through all layers together; 0: the whole prompt
  std::int64_t kept_rows = 1;  // last tokens whose logits can be asked for
  comparison compare = comparison::none;
  layer_observer observe = {};                        // called after each layer's attention
  std::function<void(double done)> on_progress = {};  // done in [0, 1]
};

struct prefill_result {
  lacuna::pair_count pairs;  // if compared
  double output_error = 0;   // if compared: |sparse - dense| / |dense| over the attention output of all layers
  double seconds = 0;        // without the time of comparing and observing
};

/// A model that has read some tokens.
class engine {
 public:
  virtual ~engine() = default;

  virtual model_config const& config() const = 0;

  /// Whether the first run of a pattern at a length sets up what later ones reuse, and so takes longer.
  virtual bool needs_warm_up() const { return false; }

  /// Forgets all tokens and makes room for `capacity` new ones.
  virtual void reset(std::int64_t capacity) = 0;

  /// Reads tokens with the pattern. Throws llm::error if they do not fit.
  virtual prefill_result prefill(std::span<token const> tokens, prefill_request const& request) = 0;

  /// Reads tokens densely, after which the logits of the last one can be asked for.
  virtual void decode(std::span<token const> tokens) = 0;

  /// Most probable next token after the last one read.
  virtual token next() = 0;

  /// For each kept row: the most probable next token, and -ln p of `targets` (one per kept row, the first for the earliest row).
  struct row_result {
    token next;
    double loss;
  };
  virtual std::vector<row_result> score(std::span<token const> targets) = 0;
};

}  // namespace llm
