#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "cuda_engine.hpp"
#include "error.hpp"
#include "evaluation.hpp"
#include "host_engine.hpp"
#include "mapped_file.hpp"
#include "model_path.hpp"
#include "options.hpp"
#include "picture.hpp"
#include "plain_text.hpp"
#include "progress.hpp"
#include "quoted.hpp"

namespace {

using clock_type = std::chrono::steady_clock;

double seconds_since(clock_type::time_point begin) { return std::chrono::duration<double>(clock_type::now() - begin).count(); }

std::string part_of(std::string const& path) { return path + ".part"; }

/// Fails before the long run rather than after it.
void check_writable(std::optional<std::string> const& file, char const* option) {
  if (!file) return;
  auto const folder = std::filesystem::path(*file).parent_path();
  bool const is_folder = std::filesystem::is_directory(*file);
  if (is_folder || (!folder.empty() && !std::filesystem::is_directory(folder))) {
    throw llm::error(std::string(option) + " '" + *file + "': expected a file in an existing folder");
  }
  std::string const trial = part_of(*file);
  bool const opens = std::ofstream(trial, std::ios::binary).good();
  std::error_code ignored;
  std::filesystem::remove(trial, ignored);
  if (!opens) throw llm::error(std::string(option) + " '" + *file + "': cannot write into its folder");
}

/// Whole or not at all: under another name first.
void write_file(std::string const& path, char const* option, std::string const& content) {
  std::string const part = part_of(path);
  std::ofstream stream(part, std::ios::binary);
  stream << content;
  stream.close();
  std::error_code failed;
  if (stream) std::filesystem::rename(part, path, failed);
  if (stream && !failed) return;
  std::error_code ignored;
  std::filesystem::remove(part, ignored);
  throw llm::error(std::string(option) + " '" + path + "': cannot write it");
}

/// One row of the table in the making.
struct trial {
  llm::pattern_spec pattern;
  llm::task const* questions;
  llm::report_row row;
};

/// As many questions of ten as fit the seconds that are left.
int affordable_questions(std::vector<trial> const& trials, double seconds_left) {
  constexpr double answer_tokens = 10;
  double round = 0;
  for (auto const& [pattern, questions, row] : trials) round += row.prefill_seconds + answer_tokens * row.decode_seconds;
  return std::clamp(static_cast<int>(seconds_left / (1.1 * round)), 0, 10);
}

/// What read() returns; what is wrong with the file is said of the option that named it.
template <class Read>
auto about_model(llm::options const& chosen, Read const& read) {
  try {
    return read();
  } catch (llm::error const& failure) {
    throw llm::error("--model " + llm::quoted(chosen.model) + ": " + failure.what());
  }
}

/// The tasks of every length, lengths outermost. Refuses lengths without room before the model is loaded.
std::vector<llm::task> make_tasks(llm::options const& chosen, llm::tokenizer const& tokens, llm::gguf_view const& file,
                                  std::span<llm::token const> words) {
  std::vector<llm::task> tasks;
  for (auto const length : chosen.lengths) {
    for (auto const kind : chosen.tasks)
      tasks.emplace_back(kind, tokens, about_model(chosen, [&] { return llm::read_chat_format(file); }), words, length, chosen.seed);
  }
  for (auto const& task : tasks) {
    if (chosen.passkeys != 0) task.make(0, 1);
  }
  return tasks;
}

/// Reads plain text with every pattern at every length: what a trial starts from. The first prefill is observed.
std::vector<trial> read_texts(llm::options const& chosen, std::vector<llm::task> const& tasks, llm::evaluation& evaluation,
                              llm::layer_observer observe) {
  std::vector<trial> trials;
  auto next_task = tasks.begin();
  for (auto const length : chosen.lengths) {
    std::vector<llm::report_row> rows;
    for (auto const& pattern : chosen.patterns) rows.push_back(evaluation.read_text(pattern, length, std::exchange(observe, nullptr)));
    for (auto const kind : chosen.tasks) {
      for (std::size_t i = 0; i < rows.size(); ++i) {
        trials.push_back({.pattern = chosen.patterns[i], .questions = &*next_task, .row = rows[i]});
        trials.back().row.task = llm::name_of(kind);
      }
      ++next_task;
    }
  }
  return trials;
}

llm::backend backend_of(llm::options const& chosen) {
  return chosen.where.value_or(llm::why_no_cuda().empty() ? llm::backend::cuda : llm::backend::host);
}

std::unique_ptr<llm::engine> make_engine(llm::backend where, llm::gguf_view const& file, lacuna::host_executor const& exec) {
  if (where == llm::backend::cuda) return llm::make_cuda_engine(file, exec);
  return std::make_unique<llm::host_engine>(file, exec);
}

int run(llm::options const& chosen) {
  auto const begin = clock_type::now();
  check_writable(chosen.json, "--json");
  check_writable(chosen.png, "--png");
  if (chosen.json && chosen.json == chosen.png)
    throw llm::error("--json and --png name the same file '" + *chosen.json + "'; expected two");
  llm::mapped_file const file(llm::find_model(chosen.model));
  auto const view = about_model(chosen, [&] { return llm::gguf_view(file.bytes()); });
  auto const tokens = about_model(chosen, [&] { return llm::tokenizer(view); });
  llm::plain_text const text(chosen.text, tokens, *std::max_element(chosen.lengths.begin(), chosen.lengths.end()));
  auto const words = std::span(text.tokens()).subspan(llm::plain_text::skipped_tokens);
  auto const tasks = make_tasks(chosen, tokens, view, words);

  llm::progress bar;
  auto const show = [&](std::string const& label, double done) { bar.show(label, done); };
  show("loading " + chosen.model, 0);
  auto const where = backend_of(chosen);
  lacuna::host_executor const exec(chosen.threads);
  auto const engine = about_model(chosen, [&] { return make_engine(where, view, exec); });
  llm::evaluation evaluation(*engine, tokens, words, chosen.chunk, show);
  bar.clear();
  std::printf("%s on %s, text of %s\n", llm::printable(engine->config().name).c_str(), std::string(name_of(where)).c_str(),
              text.source().c_str());

  llm::picture picture(exec, chosen.patterns);
  llm::layer_observer const draw = [&](int layer, llm::attention_tensors const& tensors) {
    if (layer == llm::picture::layer_of(engine->config().layers)) picture.draw(layer, tensors);
  };
  auto trials = read_texts(chosen, tasks, evaluation, chosen.png ? draw : nullptr);
  int const count = chosen.passkeys.value_or(affordable_questions(trials, static_cast<double>(chosen.seconds) - seconds_since(begin)));
  llm::report results{.model = chosen.model, .backend = std::string(name_of(where)), .rows = {}};
  for (auto& [pattern, questions, row] : trials) {
    for (int index = 0; index < count; ++index) evaluation.ask(pattern, questions->make(index, count), row);
    results.rows.push_back(row);
  }
  bar.clear();
  std::printf("%s", llm::table_of(results).c_str());
  if (chosen.png) write_file(*chosen.png, "--png", picture.png());
  if (chosen.json) write_file(*chosen.json, "--json", llm::json_of(results));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    auto const chosen = llm::parse_options(std::span<char const* const>(argv + 1, argv + argc));
    if (!chosen.help) return run(chosen);
    std::printf("%s", std::string(llm::help_text()).c_str());
    return 0;
  } catch (std::exception const& failure) {
    std::fprintf(stderr, "lacuna_llm: %s\n", failure.what());
    return 1;
  }
}
