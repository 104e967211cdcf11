#include <doctest/doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "cuda_engine.hpp"
#include "json_reader.hpp"
#include "tiny_model.hpp"

// The program as a user runs it, on a model of random weights.

namespace {

struct outcome {
  int code;
  std::string output;  // both streams
};

outcome run(std::string const& arguments) {
  FILE* const pipe = ::popen((std::string(LACUNA_LLM_PROGRAM) + " " + arguments + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  outcome result{};
  std::array<char, 4096> buffer{};
  for (std::size_t size = 0; (size = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) result.output.append(buffer.data(), size);
  result.code = WEXITSTATUS(::pclose(pipe));
  return result;
}

struct fixture {
  std::filesystem::path folder = std::filesystem::temp_directory_path() / "lacuna_llm_command_test";
  std::string model = (folder / "tiny.gguf").string();
  std::string text = (folder / "text.txt").string();

  fixture() {
    std::filesystem::create_directories(folder);
    auto const bytes = tiny_model{}.bytes();
    std::ofstream(model, std::ios::binary).write(reinterpret_cast<char const*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    std::ofstream(text) << std::string(2000, '.');
  }
  ~fixture() { std::filesystem::remove_all(folder); }

  std::string with_model(std::string const& more) const {
    return "--backend host --model " + model + " --text " + text + " --threads 2 " + more;
  }
};

void check_refused(std::string const& arguments, std::string const& message) {
  auto const result = run(arguments);
  CAPTURE(arguments);
  CAPTURE(result.output);
  CHECK(result.code == 1);
  CHECK(result.output.starts_with("lacuna_llm: "));
  CHECK(result.output.find(message) != std::string::npos);
  CHECK(std::count(result.output.begin(), result.output.end(), '\n') == 1);
}

}  // namespace

TEST_CASE_FIXTURE(fixture, "a whole run prints a row for each pattern and writes JSON and a picture") {
  auto const json = folder / "rows.json";
  auto const png = folder / "rows.png";
  auto const result =
      run(with_model("--length 600 --passkeys 2 --pattern dense,a_shape:4:32,vertical_slash:20:20,block_sparse:2,per_head --json " +
                     json.string() + " --png " + png.string()));
  CAPTURE(result.output);
  REQUIRE(result.code == 0);
  std::ifstream stream(json);
  auto const read = json_reader::read(std::string(std::istreambuf_iterator<char>(stream), {}));
  REQUIRE(read["rows"].items().size() == 5);
  CHECK(read["backend"].text() == "host");
  auto const& dense = read["rows"].items()[0];
  CHECK(dense["visited_share"].number() == 1);
  CHECK(dense["output_error"].number() == 0);
  CHECK(dense["passkeys"].number() == 2);
  auto const& narrow = read["rows"].items()[1];
  CHECK(narrow["pattern"].text() == "a_shape:4:32");
  CHECK(narrow["visited_share"].number() < 0.2);
  CHECK(narrow["output_error"].number() > 0);
  CHECK(narrow["prefill_seconds"].number() > 0);
  CHECK(narrow["decode_seconds"].number() > 0);
  CHECK(std::filesystem::file_size(png) > 1000);
}

TEST_CASE_FIXTURE(fixture, "no questions and chunks work too") {
  CHECK(run(with_model("--length 200 --passkeys 0 --pattern dense --chunk 64")).code == 0);
  CHECK(run(with_model("--length 600 --passkeys 1 --pattern vertical_slash:20:20 --chunk 100 --task multi_key")).code == 0);
}

TEST_CASE_FIXTURE(fixture, "what is wrong is named in one line, and nothing is written") {
  auto const json = (folder / "none.json").string();
  check_refused("--model " + (folder / "absent.gguf").string(), "is neither smollm2-135m, qwen2.5-coder-1.5b nor an existing GGUF file");
  check_refused("--model " + text, "--model '" + text + "': not a GGUF file");
  check_refused("--model " + folder.string(), "not a regular file");
  check_refused("--pattern sparse", "pattern 'sparse' is not known; expected one of dense, a_shape:SINKS:WINDOW");
  if (auto const reason = llm::why_no_cuda(); !reason.empty()) check_refused("--backend cuda", reason);
  check_refused(with_model("--length 5000 --json " + json), "has 2000 tokens, but this length needs 6000");
  check_refused(with_model("--length 100 --json " + json), "--length 100 is too short for task passkey");
  check_refused(with_model("--json /no/such/folder/x.json"), "--json '/no/such/folder/x.json': expected a file in an existing folder");
  check_refused(with_model("--json /proc/x.json --png " + json), "--json '/proc/x.json': cannot write into its folder");
  check_refused(with_model("--json " + json + " --png " + json), "--json and --png name the same file");
  check_refused(with_model("--text " + (folder / "absent.txt").string()), "cannot read text file");
  CHECK_FALSE(std::filesystem::exists(json));
}

TEST_CASE_FIXTURE(fixture, "lists of lengths and tasks give a row for each length, task and pattern") {
  auto const json = folder / "rows.json";
  auto const result =
      run(with_model("--length 700,600 --task passkey,multi_key --passkeys 1 --pattern dense,a_shape:4:32 --json " + json.string()));
  CAPTURE(result.output);
  REQUIRE(result.code == 0);
  std::ifstream stream(json);
  auto const read = json_reader::read(std::string(std::istreambuf_iterator<char>(stream), {}));
  auto const& rows = read["rows"].items();
  REQUIRE(rows.size() == 8);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CAPTURE(i);
    CHECK(rows[i]["length"].number() == (i < 4 ? 700 : 600));
    CHECK(rows[i]["task"].text() == (i % 4 < 2 ? "passkey" : "multi_key"));
    CHECK(rows[i]["pattern"].text() == (i % 2 == 0 ? "dense" : "a_shape:4:32"));
    CHECK(rows[i]["passkeys"].number() == 1);
  }
  CHECK(rows[0]["nll"].number() == rows[2]["nll"].number());  // one reading of the text serves all tasks
  CHECK(rows[0]["nll"].number() != rows[4]["nll"].number());
}

TEST_CASE("help wins over everything else") {
  auto const result = run("--model smollm2-135m --help");
  CHECK(result.code == 0);
  CHECK(result.output.find("--pattern LIST") != std::string::npos);
}
