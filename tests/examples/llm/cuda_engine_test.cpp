#include "cuda_engine.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <utility>

#include "error.hpp"
#include "host_engine.hpp"
#include "losses.hpp"
#include "tiny_model.hpp"

// The CUDA engine beside the host's on models of random weights. Error model: every factor of a product is rounded to bf16, 2^-9 of it, and
// some ten roundings stand between a token and its logits, so losses differ by 1 to 2 % of their spread; 5 % are allowed.

namespace {

struct fixture {
  std::vector<std::byte> bytes;
  llm::gguf_view view;
  lacuna::host_executor exec{2};
  llm::host_engine host;
  std::unique_ptr<llm::engine> cuda;
  std::vector<llm::token> tokens = some_tokens();

  explicit fixture(tiny_model const& model = {})
      : bytes(model.bytes()), view(bytes), host(view, exec), cuda(llm::make_cuda_engine(view, exec)) {}

  std::vector<double> losses(llm::engine& engine, llm::prefill_request const& request) const { return losses_of(engine, tokens, request); }
};

/// Root of the mean square difference, as a share of how much the losses of the rows differ among themselves.
double relative_difference(std::vector<double> const& a, std::vector<double> const& b) {
  REQUIRE(a.size() == b.size());
  double const mean = std::accumulate(b.begin(), b.end(), 0.0) / static_cast<double>(b.size());
  double difference = 0, spread = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference += std::pow(a[i] - b[i], 2), spread += std::pow(b[i] - mean, 2);
  return std::sqrt(difference / spread);
}

constexpr double bf16_error = 0.05;

}  // namespace

TEST_CASE("losses equal the host's within the error of bf16: both architectures, head sizes 32 and 64, tied output or not, every pattern") {
  for (auto const& model : {tiny_model{"llama", 2, 4}, tiny_model{"qwen2", 2, 4}, tiny_model{"llama", 2, 2}, tiny_model{"qwen2", 2, 2},
                            tiny_model{"qwen2", 2, 2, true}}) {
    fixture here(model);
    CAPTURE(model.query_heads);
    for (auto const& pattern : llm::parse_patterns("dense,a_shape:4:32,vertical_slash:0:4096,block_sparse:64,per_head")) {
      CAPTURE(model.architecture);
      CAPTURE(llm::text_of(pattern));
      CHECK(relative_difference(here.losses(*here.cuda, {.pattern = pattern}), here.losses(here.host, {.pattern = pattern})) < bf16_error);
    }
  }
}

TEST_CASE("a second run of the same tokens gives the same bits") {
  fixture here;
  auto const pattern = llm::parse_patterns("vertical_slash:20:20")[0];
  CHECK(here.losses(*here.cuda, {.pattern = pattern}) == here.losses(*here.cuda, {.pattern = pattern}));
}

TEST_CASE("chunks do not change the losses beyond rounding") {
  fixture here;
  auto const whole = here.losses(*here.cuda, {});
  for (std::int64_t const chunk : {1, 7, 64, 149}) {
    CAPTURE(chunk);
    CHECK(relative_difference(here.losses(*here.cuda, {.chunk = chunk}), whole) < bf16_error);
  }
}

TEST_CASE("pairs are counted as on the host where the data does not matter, and a narrow pattern has the host's error") {
  fixture here;
  auto const pattern = llm::parse_patterns("a_shape:2:10")[0];
  llm::prefill_request const request{.pattern = pattern, .compare = llm::comparison::with_dense};
  here.host.reset(150);
  here.cuda->reset(150);
  auto const expected = here.host.prefill(here.tokens, request);
  auto const result = here.cuda->prefill(here.tokens, request);
  CHECK(result.pairs.visited == expected.pairs.visited);
  CHECK(result.pairs.total == expected.pairs.total);
  CHECK(result.output_error == doctest::Approx(expected.output_error).epsilon(0.05));
  CHECK(result.seconds > 0);
}

TEST_CASE("patterns that cover everything visit everything and differ from dense by rounding only") {
  fixture here;
  for (auto const& pattern : llm::parse_patterns("a_shape:0:4096,vertical_slash:0:4096,block_sparse:64,per_head")) {
    CAPTURE(llm::text_of(pattern));
    here.cuda->reset(150);
    auto const result = here.cuda->prefill(here.tokens, {.pattern = pattern, .compare = llm::comparison::with_dense});
    CHECK(result.pairs.share() == 1);
    CHECK(result.output_error < 1e-2);
  }
}

TEST_CASE("decoding continues a prefill, one token or many at a time") {
  fixture here;
  auto const whole = here.losses(*here.cuda, {});
  here.cuda->reset(200);
  here.cuda->prefill(std::span(here.tokens).first(100), {});
  here.cuda->decode(std::span(here.tokens).subspan(100, 10));
  std::vector<double> decoded;
  for (std::size_t i = 110; i < here.tokens.size(); ++i) {
    here.cuda->decode(std::span(here.tokens).subspan(i, 1));
    auto const last = here.cuda->score(std::span(here.tokens).subspan(i, 1))[0];
    CHECK(last.next == here.cuda->next());
    decoded.push_back(last.loss);
  }
  CHECK(relative_difference(decoded, {whole.begin() + 110, whole.end()}) < bf16_error);
}

TEST_CASE("the host sees the tensors of every layer as the host's engine shows them") {
  fixture here;
  std::vector<std::vector<float>> seen[2];
  llm::engine* const engines[2]{&here.host, here.cuda.get()};
  for (int i = 0; i < 2; ++i) {
    engines[i]->reset(150);
    engines[i]->prefill(here.tokens, {.observe = [&](int layer, llm::attention_tensors const& t) {
                          CHECK(layer == static_cast<int>(seen[i].size()));
                          std::vector<float> row(t.q.row(0, 149, 3), t.q.row(0, 149, 3) + t.head_size());
                          for (auto const* const view : {&t.k, &t.v})
                            row.insert(row.end(), view->row(0, 77, 1), view->row(0, 77, 1) + t.head_size());
                          row.insert(row.end(), t.out.row(0, 149, 2), t.out.row(0, 149, 2) + t.head_size());
                          seen[i].push_back(row);
                        }});
  }
  REQUIRE(seen[0].size() == 2);
  REQUIRE(seen[1].size() == 2);
  for (std::size_t layer = 0; layer < 2; ++layer) {
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < seen[0][layer].size(); ++i) {
      difference += std::pow(seen[1][layer][i] - seen[0][layer][i], 2), norm += std::pow(seen[0][layer][i], 2);
    }
    CHECK(std::sqrt(difference / norm) < 2e-2);
  }
}

TEST_CASE("progress ends at 1, and what does not fit is refused as on the host") {
  fixture here;
  double last = 0;
  here.losses(*here.cuda, {.chunk = 40, .on_progress = [&](double done) {
                             CHECK(done >= last);
                             last = done;
                           }});
  CHECK(last == 1);
  here.cuda->reset(100);
  CHECK_THROWS_WITH_AS(here.cuda->next(), "no tokens have been read yet", llm::error);
  CHECK_THROWS_WITH_AS(here.cuda->prefill(here.tokens, {}), "150 tokens do not fit, there is room for 100", llm::error);
}
