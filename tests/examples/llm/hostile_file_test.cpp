#include <doctest/doctest.h>

#include <algorithm>

#include "chat_format.hpp"
#include "error.hpp"
#include "host_engine.hpp"
#include "tiny_model.hpp"

// Whatever a file holds, loading it either works or throws llm::error: no crash, no read past the end (under AddressSanitizer, the bytes
// end where their allocation ends), and no allocation beyond a few times the file's size (ASan refuses absurd ones, bad_alloc fails here).

namespace {

bool loads(std::vector<std::byte> const& bytes) {
  try {
    llm::gguf_view const view(bytes);
    llm::tokenizer const tokens(view);
    llm::read_chat_format(view);
    tokens.encode("<|im_start|>hello, 42 things in the hall", llm::special_tokens::matched);
    llm::host_engine const engine(view, lacuna::host_executor(1));
    return true;
  } catch (llm::error const&) {
    return false;
  }
}

/// The directory, where a changed byte matters most.
constexpr std::size_t directory_bytes = 12'000;

}  // namespace

TEST_CASE("the tiny model loads as both architectures") {
  CHECK(loads(tiny_model{}.bytes()));
  CHECK(loads(tiny_model{.architecture = "qwen2"}.bytes()));
}

TEST_CASE("truncated files are refused") {
  auto const good = tiny_model{.layers = 1}.bytes();
  for (std::size_t size = 0; size < good.size(); size += size < directory_bytes ? 13 : 4099) {
    CAPTURE(size);
    CHECK_FALSE(loads({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}));
  }
}

TEST_CASE("files with random bytes changed load or are refused") {
  auto const good = tiny_model{.layers = 1}.bytes();
  llm::random_source random(11);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    auto bad = good;
    auto const changes = random.between(1, 4);
    for (std::uint64_t i = 0; i < changes; ++i) {
      auto const at = random.between(0, std::min(directory_bytes, bad.size()) - 1);
      bad[at] = static_cast<std::byte>(random.between(0, 3) == 0 ? 255 : random.between(0, 255));
    }
    refused += loads(bad) ? 0 : 1;
  }
  CHECK(refused > 1000);
}

TEST_CASE("numbers replaced by extreme ones load or are refused") {
  auto const good = tiny_model{.layers = 1}.bytes();
  for (std::uint64_t const extreme :
       {std::uint64_t{0}, std::uint64_t{1} << 31, std::uint64_t{1} << 32, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    for (std::size_t at = 4; at < directory_bytes; at += 11) {
      auto bad = good;
      std::memcpy(bad.data() + at, &extreme, sizeof extreme);
      loads(bad);
    }
  }
}

TEST_CASE("contradictory models are refused by name") {
  auto const complaint = [](auto change) {
    tiny_model const model;
    gguf_builder file = model.builder();
    change(file);
    auto const bytes = file.finish();
    try {
      llm::gguf_view const view(bytes);
      llm::host_engine const engine(view, lacuna::host_executor(1));
    } catch (llm::error const& failure) {
      return std::string(failure.what());
    }
    return std::string();
  };
  CHECK(complaint([](auto& file) { file.tensor("blk.0.attn_q_norm.weight", {32}, std::vector<float>(32)); }) ==
        "tensor 'blk.0.attn_q_norm.weight' is not part of this architecture as this engine knows it");
  CHECK(complaint([](auto& file) { file.text("llama.rope.scaling.type", "yarn"); }) ==
        "llama.rope.scaling.type is 'yarn', expected 'none'");
  CHECK(complaint([](auto& file) { file.u32("llama.rope.dimension_count", 16); }) ==
        "llama.rope.dimension_count is 16, expected the head size 32");
  CHECK(complaint([](auto& file) { file.u32("llama.attention.key_length", 20); }) == "head size is 20, expected a multiple of 8 up to 256");
  CHECK(complaint([](auto& file) { file.u32("llama.attention.key_length", 64); }) ==
        "tensor blk.0.attn_q.weight has shape [128, 128], expected [256, 128]");
}

TEST_CASE("other architectures and tokenizers are refused by name") {
  gguf_builder other;
  other.text("general.architecture", "mamba");
  auto bytes = other.finish();
  CHECK_THROWS_WITH_AS(llm::read_config(llm::gguf_view(bytes)), "general.architecture is 'mamba', expected 'llama' or 'qwen2'", llm::error);
  gguf_builder tokens;
  tokens.text("tokenizer.ggml.pre", "llama-bpe");
  bytes = tokens.finish();
  CHECK_THROWS_WITH_AS(llm::tokenizer(llm::gguf_view(bytes)), "tokenizer.ggml.pre is 'llama-bpe', expected 'smollm' or 'qwen2'",
                       llm::error);
}
