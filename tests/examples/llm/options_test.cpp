#include "options.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "cuda_engine.hpp"
#include "error.hpp"

namespace {

llm::options parse(std::vector<char const*> const& arguments) { return llm::parse_options(arguments); }

std::string complaint(std::vector<char const*> const& arguments) {
  try {
    parse(arguments);
  } catch (llm::error const& failure) {
    return failure.what();
  }
  return "";
}

}  // namespace

TEST_CASE("defaults are smollm2-135m, passkey, 4096 tokens and six patterns") {
  auto const chosen = parse({});
  CHECK(chosen.model == "smollm2-135m");
  CHECK(chosen.tasks == std::vector{llm::task_kind::passkey});
  CHECK(chosen.lengths == std::vector<std::int64_t>{4096});
  CHECK_FALSE(chosen.where);
  CHECK_FALSE(chosen.passkeys);
  CHECK(chosen.patterns.size() == 6);
}

TEST_CASE("values are read after a blank or an equals sign") {
  auto const chosen = parse({"--length", "512", "--task=kv", "--passkeys=0", "--pattern", "dense", "--backend=host", "--chunk", "100"});
  CHECK(chosen.lengths == std::vector<std::int64_t>{512});
  CHECK(chosen.tasks == std::vector{llm::task_kind::kv});
  CHECK(chosen.where == llm::backend::host);
  CHECK(chosen.passkeys == 0);
  CHECK(chosen.patterns.size() == 1);
  CHECK(chosen.chunk == 100);
}

TEST_CASE("lengths and tasks may be lists") {
  auto const chosen = parse({"--length=512,16384", "--task", "kv,passkey,multi_key"});
  CHECK(chosen.lengths == std::vector<std::int64_t>{512, 16384});
  CHECK(chosen.tasks == std::vector{llm::task_kind::kv, llm::task_kind::passkey, llm::task_kind::multi_key});
}

TEST_CASE("the CUDA engine is refused with the reason where there is none") {
  auto const reason = llm::why_no_cuda();
  CHECK(complaint({"--backend", "cuda"}) == (reason.empty() ? "" : "--backend cuda: " + reason));
}

TEST_CASE("wrong options are refused by name") {
  CHECK(complaint({"--lenght", "5"}) == "unknown option '--lenght'; --help lists the known ones");
  CHECK(complaint({"extra"}) == "unknown option 'extra'; --help lists the known ones");
  CHECK(complaint({"--length"}) == "--length needs a value; --help says which");
  CHECK(complaint({"--json="}) == "--json needs a value; --help says which");
  CHECK(complaint({"--length", "many"}) == "--length is 'many', expected a whole number from 16 to 16777216");
  CHECK(complaint({"--length", "-5"}) == "--length is '-5', expected a whole number from 16 to 16777216");
  CHECK(complaint({"--threads", "0"}) == "--threads is '0', expected a whole number from 1 to 1024");
  CHECK(complaint({"--task", "sum"}) == "--task is 'sum', expected passkey, multi_key or kv");
  CHECK(complaint({"--backend", "tpu"}) == "--backend is 'tpu', expected host or cuda");
  CHECK(complaint({"--length", "512,"}) == "--length is '', expected a whole number from 16 to 16777216");
  CHECK(complaint({"--task", "kv,sum"}) == "--task is 'sum', expected passkey, multi_key or kv");
  CHECK(complaint({"--seed", "99999999999999999999"}) ==
        "--seed is '99999999999999999999', expected a whole number from 0 to 18446744073709551615");
  CHECK(complaint({"--pattern", "dense,streaming", "--png", "a.png"}) ==
        "--png draws turned keys, which pattern 'streaming' does not keep");
}

TEST_CASE("the help names every option") {
  for (auto const* const name : {"--model", "--text", "--length", "--task", "--passkeys", "--seed", "--pattern", "--threads", "--backend",
                                 "--chunk", "--json", "--png", "--seconds", "--help"}) {
    CHECK(llm::help_text().find(name) != std::string_view::npos);
  }
  CHECK(parse({"--help"}).help);
}
