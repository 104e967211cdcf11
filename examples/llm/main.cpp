#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>

#include "error.hpp"
#include "evaluation.hpp"
#include "host_engine.hpp"
#include "mapped_file.hpp"
#include "model_path.hpp"
#include "options.hpp"
#include "picture.hpp"
#include "plain_text.hpp"
#include "progress.hpp"

namespace {

using clock_type = std::chrono::steady_clock;

double seconds_since(clock_type::time_point begin) { return std::chrono::duration<double>(clock_type::now() - begin).count(); }

/// Fails before the long run rather than after it.
void check_writable(std::optional<std::string> const& file, char const* option) {
  if (!file) return;
  auto const folder = std::filesystem::path(*file).parent_path();
  bool const is_folder = std::filesystem::is_directory(*file);
  if (is_folder || (!folder.empty() && !std::filesystem::is_directory(folder))) {
    throw llm::error(std::string(option) + " '" + *file + "': expected a file in an existing folder");
  }
}

void write_file(std::string const& path, std::string const& content) {
  std::ofstream stream(path, std::ios::binary);
  stream << content;
  if (!stream.flush()) throw llm::error("cannot write " + path);
}

/// As many questions of ten as fit the seconds that are left.
int affordable_questions(llm::report const& results, double seconds_left) {
  constexpr double answer_tokens = 10;
  double round = 0;
  for (auto const& row : results.rows) round += row.prefill_seconds + answer_tokens * row.decode_seconds;
  return std::clamp(static_cast<int>(seconds_left / (1.1 * round)), 0, 10);
}

int run(llm::options const& chosen) {
  auto const begin = clock_type::now();
  check_writable(chosen.json, "--json");
  check_writable(chosen.png, "--png");
  llm::mapped_file const file(llm::find_model(chosen.model));
  llm::gguf_view const view(file.bytes());
  llm::tokenizer const tokens(view);
  llm::plain_text const text(chosen.text, tokens, chosen.length);
  auto const words = std::span(text.tokens()).subspan(llm::plain_text::skipped_tokens);
  llm::task const questions(chosen.task, tokens, llm::read_chat_format(view), words, chosen.length, chosen.seed);
  if (chosen.passkeys != 0) questions.make(0, 1);

  llm::progress bar;
  auto const show = [&](std::string const& label, double done) { bar.show(label, done); };
  show("loading " + chosen.model, 0);
  lacuna::host_executor const exec(chosen.threads);
  llm::host_engine engine(view, exec);
  llm::evaluation evaluation(engine, tokens, words, {.length = chosen.length, .chunk = chosen.chunk, .kind = chosen.task}, show);
  bar.clear();
  std::printf("%s, %lld tokens of %s\n", engine.config().name.c_str(), static_cast<long long>(chosen.length), text.source().c_str());

  llm::picture picture(exec, chosen.patterns);
  llm::layer_observer const draw = [&](int layer, llm::attention_tensors const& tensors) {
    if (layer == llm::picture::layer_of(engine.config().layers)) picture.draw(layer, tensors);
  };
  llm::report results{.model = chosen.model, .backend = "host", .rows = {}};
  for (auto const& pattern : chosen.patterns) {
    bool const is_drawn = chosen.png.has_value() && results.rows.empty();
    results.rows.push_back(evaluation.read_text(pattern, is_drawn ? draw : nullptr));
  }
  int const count = chosen.passkeys.value_or(affordable_questions(results, static_cast<double>(chosen.seconds) - seconds_since(begin)));
  for (std::size_t i = 0; i < results.rows.size(); ++i) {
    for (int index = 0; index < count; ++index) evaluation.ask(chosen.patterns[i], questions.make(index, count), results.rows[i]);
  }
  bar.clear();
  std::printf("%s", llm::table_of(results).c_str());
  if (chosen.png) write_file(*chosen.png, picture.png());
  if (chosen.json) write_file(*chosen.json, llm::json_of(results));
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
