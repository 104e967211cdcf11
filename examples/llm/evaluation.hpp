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
  struct settings {
    std::int64_t length;
    std::int64_t chunk;
    task_kind kind;
  };
  using progress_function = std::function<void(std::string const& label, double done)>;

  /// `text` holds at least `length` tokens. The engine, tokenizer and text must outlive the evaluation.
  evaluation(engine& model, tokenizer const& tokens, std::span<token const> text, settings const& chosen, progress_function on_progress);

  /// A row with loss, share, error and times of plain text; `observe` sees every layer.
  report_row read_text(pattern_spec const& pattern, layer_observer const& observe);

  /// Asks one question and counts the answer into the row.
  void ask(pattern_spec const& pattern, question const& asked, report_row& row);

 private:
  prefill_request request(pattern_spec const& pattern, std::string const& label) const;
  bool answers_rightly(std::string const& answer, report_row& row);

  engine& model_;
  tokenizer const& tokens_;
  std::span<token const> text_;
  settings chosen_;
  progress_function on_progress_;
};

}  // namespace llm
