#include "options.hpp"

#include <charconv>
#include <functional>
#include <map>

#include "cuda_engine.hpp"
#include "error.hpp"
#include "split.hpp"

namespace llm {
namespace {

constexpr std::string_view default_patterns =
    "dense,a_shape:64:1024,vertical_slash:500:500,vertical_slash:100:800,block_sparse:16,per_head";

std::uint64_t whole_number(std::string_view option, std::string_view text, std::uint64_t smallest, std::uint64_t largest) {
  std::uint64_t value = 0;
  auto const [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size() || value < smallest || value > largest) {
    throw error(std::string(option) + " is '" + std::string(text) + "', expected a whole number from " + std::to_string(smallest) + " to " +
                std::to_string(largest));
  }
  return value;
}

backend backend_from(std::string_view name) {
  if (name == "host") return backend::host;
  if (name != "cuda") throw error("--backend is '" + std::string(name) + "', expected host or cuda");
  if (auto const reason = why_no_cuda(); !reason.empty()) throw error("--backend cuda: " + reason);
  return backend::cuda;
}

/// Reads each item of a comma-separated list.
template <class Read>
auto list_of(std::string_view list, Read const& read) {
  std::vector<decltype(read(list))> items;
  for (auto const item : split(list, ',')) items.push_back(read(item));
  return items;
}

using setter = std::function<void(options&, std::string_view)>;

std::map<std::string_view, setter> const& setters() {
  constexpr std::uint64_t most = 1U << 24;
  static std::map<std::string_view, setter> const table{
      {"--model", [](options& o, std::string_view value) { o.model = value; }},
      {"--text", [](options& o, std::string_view value) { o.text = value; }},
      {"--length",
       [](options& o, std::string_view value) {
         o.lengths = list_of(value, [](auto item) { return static_cast<std::int64_t>(whole_number("--length", item, 16, most)); });
       }},
      {"--task", [](options& o, std::string_view value) { o.tasks = list_of(value, task_from); }},
      {"--passkeys",
       [](options& o, std::string_view value) { o.passkeys = static_cast<int>(whole_number("--passkeys", value, 0, 10000)); }},
      {"--seed", [](options& o, std::string_view value) { o.seed = whole_number("--seed", value, 0, ~std::uint64_t{0}); }},
      {"--pattern", [](options& o, std::string_view value) { o.patterns = parse_patterns(value); }},
      {"--threads", [](options& o, std::string_view value) { o.threads = static_cast<int>(whole_number("--threads", value, 1, 1024)); }},
      {"--chunk", [](options& o, std::string_view value) { o.chunk = static_cast<std::int64_t>(whole_number("--chunk", value, 1, most)); }},
      {"--seconds",
       [](options& o, std::string_view value) { o.seconds = static_cast<std::int64_t>(whole_number("--seconds", value, 1, 1 << 20)); }},
      {"--backend", [](options& o, std::string_view value) { o.where = backend_from(value); }},
      {"--json", [](options& o, std::string_view value) { o.json = value; }},
      {"--png", [](options& o, std::string_view value) { o.png = value; }},
  };
  return table;
}

}  // namespace

options parse_options(std::span<char const* const> arguments) {
  options result;
  result.patterns = parse_patterns(default_patterns);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string_view name = arguments[i];
    if (name == "--help" || name == "-h") {
      result.help = true;
      continue;
    }
    auto const equals = name.find('=');
    bool const is_joined = name.starts_with("--") && equals != std::string_view::npos;
    std::string_view const full = name;
    if (is_joined) name = name.substr(0, equals);
    auto const found = setters().find(name);
    if (found == setters().end()) throw error("unknown option '" + std::string(name) + "'; --help lists the known ones");
    if (!is_joined && i + 1 == arguments.size()) throw error(std::string(name) + " needs a value; --help says which");
    std::string_view const value = is_joined ? full.substr(equals + 1) : std::string_view(arguments[++i]);
    if (value.empty()) throw error(std::string(name) + " needs a value; --help says which");
    found->second(result, value);
  }
  for (auto const& pattern : result.patterns) {
    if (result.png && sets_positions(pattern))
      throw error("--png draws turned keys, which pattern '" + text_of(pattern) + "' does not keep");
  }
  return result;
}

std::string_view name_of(backend where) { return where == backend::cuda ? "cuda" : "host"; }

std::string_view help_text() {
  return R"(Runs a language model on a long prompt, once for each attention pattern, and compares answers, loss and time.

  --model NAME|FILE    smollm2-135m (default), qwen2.5-coder-1.5b, or a GGUF file of architecture llama or qwen2
  --length LIST        tokens of the prompt with the begun answer (default 4096)
  --task LIST          passkey (default), multi_key or kv: what is hidden in the text
  --passkeys N         questions asked, 0 for none (default: as many of 10 as fit --seconds)
  --pattern LIST       comma-separated; of dense, a_shape:SINKS:WINDOW, vertical_slash:VERTICALS:SLASHES, block_sparse:BLOCKS, per_head
                       (odd heads a_shape:64:1024, even heads vertical_slash:500:500); default: six of them. On the host also, with answers
                       read the same way: infinite_hip:3k or :5k, with :exact, :midpoint, :quarter, :mean or :bound in place of
                       halving; streaming (its sinks and window alone); dense_ntk, dense_yarn, dense_extend
  --text FILE          the text (default: /usr/share/common-licenses)
  --seed N             of the numbers hidden (default 1)
  --chunk N            prefill N tokens at a time through all layers (default: the whole prompt, layer by layer)
  --threads N          default: one per hardware thread
  --seconds N          time for the whole command when --passkeys is not given (default 210)
  --backend host|cuda  default: cuda if it is built and there is a GPU, else host
  --json FILE          writes the table as JSON
  --png FILE           draws heads' kept pattern over their true attention
  --help               this text

Columns: right answers, share of (query, key) pairs visited, relative error of the attention output against dense, loss (mean -ln p of the
last 512 tokens of plain text), seconds for one prefill, seconds for one answer token. The prompt is read with the pattern, answers densely.
)";
}

}  // namespace llm
