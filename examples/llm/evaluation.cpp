#include "evaluation.hpp"

#include <algorithm>
#include <chrono>

namespace llm {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::int64_t scored_tokens = 512;  // of the loss: the last of the text
constexpr int timed_tokens = 4;              // decoded after the text, so that a run without questions has a decode time too

double seconds_since(clock::time_point begin) { return std::chrono::duration<double>(clock::now() - begin).count(); }

/// Folds one more sample into a mean of `count` earlier ones.
void fold(double& mean, int count, double sample) { mean += (sample - mean) / (count + 1); }

}  // namespace

evaluation::evaluation(engine& model, tokenizer const& tokens, std::span<token const> text, std::int64_t chunk,
                       progress_function on_progress)
    : model_(model), tokens_(tokens), text_(text), chunk_(chunk), on_progress_(std::move(on_progress)) {}

prefill_request evaluation::request(pattern_spec const& pattern, std::string const& label) const {
  return {.pattern = pattern, .chunk = chunk_, .on_progress = [this, label](double done) { on_progress_(label, done); }};
}

/// A run that nobody times.
void evaluation::warm_up(pattern_spec const& pattern, std::span<token const> text) {
  model_.reset(static_cast<std::int64_t>(text.size()) + timed_tokens);
  model_.prefill(text, request(pattern, text_of(pattern) + ": warming up"));
  token const next = model_.next();
  model_.decode({&next, 1});
}

report_row evaluation::read_text(pattern_spec const& pattern, std::int64_t length, layer_observer const& observe) {
  auto const scored = std::min(scored_tokens, length - 1);
  auto const text = text_.first(static_cast<std::size_t>(length));
  if (model_.needs_warm_up()) warm_up(pattern, text);
  auto wanted = request(pattern, text_of(pattern) + ": text");
  wanted.kept_rows = scored + 1;
  wanted.compare = comparison::with_dense;
  wanted.observe = observe;
  model_.reset(length + timed_tokens);
  auto const result = model_.prefill(text, wanted);

  report_row row{.pattern = text_of(pattern), .task = {}, .length = length};
  row.visited_share = result.pairs.share();
  row.output_error = result.output_error;
  row.prefill_seconds = result.seconds;
  for (auto const& scored_row : model_.score(text.last(static_cast<std::size_t>(scored)))) row.nll += scored_row.loss;
  row.nll /= static_cast<double>(scored);
  auto const begin = clock::now();
  for (int i = 0; i < timed_tokens; ++i) {
    token const next = model_.next();
    model_.decode({&next, 1});
  }
  row.decode_seconds = seconds_since(begin) / timed_tokens;
  return row;
}

void evaluation::ask(pattern_spec const& pattern, question const& asked, report_row& row) {
  auto const number = std::to_string(row.passkeys + 1);
  model_.reset(static_cast<std::int64_t>(asked.prompt.size() + asked.begun.size() + asked.answer.size()));
  auto const result = model_.prefill(asked.prompt, request(pattern, row.pattern + ": " + row.task + " " + number));
  fold(row.prefill_seconds, row.passkeys + 1, result.seconds);
  model_.decode(asked.begun);
  row.right += answers_rightly(asked.answer, row) ? 1 : 0;
  ++row.passkeys;
}

/// Greedy, and no further than the first wrong token.
bool evaluation::answers_rightly(std::string const& answer, report_row& row) {
  std::vector<token> said;
  auto const begin = clock::now();
  while (true) {
    said.push_back(model_.next());
    auto const text = tokens_.decode(said);
    bool const is_wrong = text.empty() || !(text.starts_with(answer) || answer.starts_with(text));
    if (is_wrong || text.size() >= answer.size()) {
      if (said.size() > 1) fold(row.decode_seconds, row.passkeys + 1, seconds_since(begin) / static_cast<double>(said.size()));
      return !is_wrong;
    }
    model_.decode({&said.back(), 1});
  }
}

}  // namespace llm
