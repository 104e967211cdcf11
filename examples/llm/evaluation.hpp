#pragma once

#include <functional>
#include <string>

#include "engine.hpp"
#include "report.hpp"
#include "task.hpp"

namespace llm {

/// Runs one model over the same text and questions with one pattern after another.
class evaluation {
 public:
  using progress_function = std::function<void(std::string const& label, double done)>;

  /// `chunk` is prefill_request's. The engine, tokenizer and text must outlive the evaluation.
  evaluation(engine& model, tokenizer const& tokens, std::span<token const> text, std::int64_t chunk, progress_function on_progress);

  /// A row with loss, share, error and times of the first `length` tokens of the text, no more than it has; `observe` sees every layer.
  report_row read_text(pattern_spec const& pattern, std::int64_t length, layer_observer const& observe);

  /// Asks one question and counts the answer into the row.
  void ask(pattern_spec const& pattern, question const& asked, report_row& row);

 private:
  prefill_request request(pattern_spec const& pattern, std::string const& label) const;
  void warm_up(pattern_spec const& pattern, std::span<token const> text);
  bool answers_rightly(std::string const& answer, report_row& row);

  engine& model_;
  tokenizer const& tokens_;
  std::span<token const> text_;
  std::int64_t chunk_;
  progress_function on_progress_;
};

}  // namespace llm
