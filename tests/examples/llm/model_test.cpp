#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "host_engine.hpp"
#include "json_reader.hpp"
#include "mapped_file.hpp"
#include "tokenizer.hpp"

namespace {

constexpr int skipped = 77;

struct loaded {
  llm::gguf_view view;
  json_value cases;
};

loaded* model = nullptr;

std::string read_file(char const* path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Reads the reference tokens and returns every row's prediction and loss.
std::vector<llm::engine::row_result> run_reference(llm::host_engine& engine, std::int64_t chunk) {
  auto const tokens = model->cases["forward"]["tokens"].numbers<llm::token>();
  auto const rows = static_cast<std::int64_t>(tokens.size());
  engine.reset(rows);
  engine.prefill(tokens, {.chunk = chunk, .kept_rows = rows});
  auto targets = std::vector<llm::token>(tokens.begin() + 1, tokens.end());
  targets.push_back(0);
  return engine.score(targets);
}

llm::host_engine& shared_engine() {
  static llm::host_engine engine(model->view, lacuna::host_executor(2));
  return engine;
}

void check_against_reference(std::vector<llm::engine::row_result> const& rows) {
  auto const next = model->cases["forward"]["next"].numbers<llm::token>();
  auto const losses = model->cases["forward"]["nll"].numbers<double>();
  REQUIRE(rows.size() == next.size());
  double sum = 0;
  double expected_sum = 0;
  for (std::size_t i = 0; i < next.size(); ++i) {
    CAPTURE(i);
    CHECK(rows[i].next == next[i]);
    if (i == losses.size()) break;
    CHECK(rows[i].loss == doctest::Approx(losses[i]).epsilon(2e-3));
    sum += rows[i].loss;
    expected_sum += losses[i];
  }
  CHECK(sum / static_cast<double>(losses.size()) == doctest::Approx(expected_sum / static_cast<double>(losses.size())).epsilon(1e-4));
}

}  // namespace

TEST_CASE("tokenizer gives the reference tokens for awkward strings, and decoding gives the strings back") {
  llm::tokenizer const tokens(model->view);
  for (auto const& entry : model->cases["tokenizer"].items()) {
    auto const& text = entry["text"].text();
    CAPTURE(text);
    auto const ids = tokens.encode(text, llm::special_tokens::matched);
    CHECK(ids == entry["ids"].numbers<llm::token>());
    CHECK(tokens.decode(ids) == text);
  }
}

TEST_CASE("fp32 predictions and losses equal the reference") { check_against_reference(run_reference(shared_engine(), 0)); }

TEST_CASE("prefill in chunks gives the same predictions") { check_against_reference(run_reference(shared_engine(), 100)); }

TEST_CASE("decoding token by token gives the same predictions") {
  auto& engine = shared_engine();
  auto const tokens = model->cases["forward"]["tokens"].numbers<llm::token>();
  auto const next = model->cases["forward"]["next"].numbers<llm::token>();
  engine.reset(static_cast<std::int64_t>(tokens.size()));
  constexpr std::size_t read = 100;
  engine.prefill(std::span(tokens).first(read), {});
  CHECK(engine.next() == next[read - 1]);
  for (std::size_t i = read; i < read + 4; ++i) {
    engine.decode(std::span(tokens).subspan(i, 1));
    CHECK(engine.next() == next[i]);
  }
  engine.decode(std::span(tokens).subspan(read + 4, 10));
  CHECK(engine.next() == next[read + 13]);
}

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s MODEL.gguf CASES.json [doctest options]\n", argv[0]);
    return 2;
  }
  if (!std::filesystem::exists(argv[1])) {
    std::printf("skipped: no model at %s; examples/llm/fetch_model brings it\n", argv[1]);
    return skipped;
  }
  llm::mapped_file const file(argv[1]);
  loaded here{llm::gguf_view(file.bytes()), json_reader::read(read_file(argv[2]))};
  model = &here;
  return doctest::Context(argc, argv).run();
}
