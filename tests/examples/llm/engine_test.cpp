#include <doctest/doctest.h>

#include "error.hpp"
#include "host_engine.hpp"
#include "losses.hpp"
#include "tiny_model.hpp"

namespace {

struct fixture {
  std::vector<std::byte> bytes;
  llm::gguf_view view;
  llm::host_engine engine;
  std::vector<llm::token> tokens = some_tokens();

  explicit fixture(std::string const& architecture = "llama", int threads = 2, std::uint32_t query_heads = 4)
      : bytes(tiny_model{.architecture = architecture, .query_heads = query_heads}.bytes()),
        view(bytes),
        engine(view, lacuna::host_executor(threads)) {}

  std::vector<double> losses(llm::prefill_request const& request) { return losses_of(engine, tokens, request); }
};

void check_close(std::vector<double> const& a, std::vector<double> const& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-4));
  }
}

}  // namespace

TEST_CASE("chunks, threads and single steps do not change the losses") {
  for (auto const* const architecture : {"llama", "qwen2"}) {
    CAPTURE(architecture);
    fixture here(architecture);
    auto const whole = here.losses({});
    for (std::int64_t const chunk : {1, 7, 64, 149, 1000}) check_close(here.losses({.chunk = chunk}), whole);
    fixture alone(architecture, 1);
    check_close(alone.losses({}), whole);
  }
}

TEST_CASE("decoding continues a prefill") {
  fixture here;
  here.losses({});
  auto const expected = here.engine.next();
  here.engine.reset(200);
  here.engine.prefill(std::span(here.tokens).first(100), {});
  here.engine.decode(std::span(here.tokens).subspan(100, 49));
  here.engine.decode(std::span(here.tokens).last(1));
  CHECK(here.engine.next() == expected);
}

TEST_CASE("a later token does not change an earlier loss") {
  fixture here;
  auto const before = here.losses({});
  here.tokens.back() = 3;
  auto const after = here.losses({});
  check_close({before.begin(), before.end() - 1}, {after.begin(), after.end() - 1});
}

TEST_CASE("patterns that cover everything equal dense, and say that they visit everything") {
  fixture here;
  auto const dense = here.losses({});
  for (auto const* const list : {"a_shape:0:4096", "vertical_slash:0:4096", "block_sparse:64", "per_head"}) {
    CAPTURE(list);
    auto const pattern = llm::parse_patterns(list)[0];
    check_close(here.losses({.pattern = pattern}), dense);
    here.engine.reset(150);
    auto const result = here.engine.prefill(here.tokens, {.pattern = pattern, .compare = llm::comparison::with_dense});
    CHECK(result.pairs.share() == 1);
    CHECK(result.output_error < 1e-5);
  }
}

TEST_CASE("patterns that set positions equal dense on texts that they read whole, in chunks and while decoding too") {
  for (auto const* const architecture : {"llama", "qwen2"}) {  // neighbours and halves turn together
    fixture here(architecture, 2, 2);
    auto const dense = here.losses({});
    auto const expected = here.engine.next();
    for (auto const* const list : {"infinite_hip:3k", "infinite_hip:5k:exact", "infinite_hip:3k:mean", "streaming"}) {
      CAPTURE(list);
      auto const pattern = llm::parse_patterns(list)[0];
      check_close(here.losses({.pattern = pattern}), dense);
      check_close(here.losses({.pattern = pattern, .chunk = 37}), dense);
      here.engine.reset(150);
      auto const result =
          here.engine.prefill(std::span(here.tokens).first(99), {.pattern = pattern, .compare = llm::comparison::with_dense});
      CHECK(result.pairs.share() == 1);
      CHECK(result.output_error < 1e-4);
      here.engine.decode(std::span(here.tokens).subspan(99, 50));
      here.engine.decode(std::span(here.tokens).last(1));
      CHECK(here.engine.next() == expected);
    }
    check_close(here.losses({}), dense);  // nothing is left behind
  }
}

TEST_CASE("scaled and folded angles change what a model says beyond its trained length only") {
  fixture here("llama", 2, 2);  // trained for 64 tokens
  auto const dense = here.losses({});
  here.tokens.resize(64);
  auto const short_dense = here.losses({});
  for (auto const* const list : {"dense_ntk", "dense_yarn", "dense_extend"}) {
    CAPTURE(list);
    check_close(here.losses({.pattern = llm::parse_patterns(list)[0]}), short_dense);
  }
  fixture longer("llama", 2, 2);
  for (auto const* const list : {"dense_ntk", "dense_yarn"}) {
    auto const scaled = longer.losses({.pattern = llm::parse_patterns(list)[0]});
    CHECK(std::abs(scaled[149] - dense[149]) > 1e-3);
  }
}

TEST_CASE("patterns that set positions are refused for head sizes that they are not built for") {
  fixture here;
  here.engine.reset(150);
  CHECK_THROWS_WITH_AS(here.engine.prefill(here.tokens, {.pattern = llm::parse_patterns("infinite_hip:3k")[0]}),
                       "head size is 32, expected 64 or 128 for pattern 'infinite_hip:3k'", llm::error);
}

TEST_CASE("a narrow pattern visits fewer pairs, counted exactly, and has an error") {
  fixture here;
  here.engine.reset(150);
  auto const pattern = llm::parse_patterns("a_shape:2:10")[0];
  auto const result = here.engine.prefill(here.tokens, {.pattern = pattern, .compare = llm::comparison::with_dense});
  std::int64_t visited = 0;
  for (int query = 0; query < 150; ++query) {
    for (int key = 0; key <= query; ++key) visited += key < 2 || query - key < 10 ? 1 : 0;
  }
  CHECK(result.pairs.visited == visited * 4 * 2);  // heads, layers
  CHECK(result.pairs.total == 150 * 151 / 2 * 4 * 2);
  CHECK(result.output_error > 1e-3);
}

TEST_CASE("progress ends at 1 and observers see every layer") {
  fixture here;
  double last = 0;
  int layers = 0;
  llm::prefill_request request{.chunk = 40};
  request.on_progress = [&](double done) {
    CHECK(done >= last);
    last = done;
  };
  request.observe = [&](int layer, llm::attention_tensors const& tensors) {
    CHECK(layer == layers++ % 2);
    CHECK(tensors.query_heads() == 4);
  };
  here.losses(request);
  CHECK(last == 1);
  CHECK(layers == 4 * 2);
}

TEST_CASE("tokens that do not fit or do not exist are refused before anything is read") {
  fixture here;
  CHECK_THROWS_WITH_AS(here.engine.next(), "no tokens have been read yet", llm::error);
  here.engine.reset(100);
  CHECK_THROWS_WITH_AS(here.engine.prefill(here.tokens, {}), "150 tokens do not fit, there is room for 100", llm::error);
  std::vector<llm::token> const wrong{5, 272};
  CHECK_THROWS_WITH_AS(here.engine.prefill(wrong, {}), "token 272 is outside the vocabulary of 272", llm::error);
  CHECK_THROWS_WITH_AS(here.engine.decode({}), "no tokens to read", llm::error);
}
