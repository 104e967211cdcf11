#include "plain_text.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "error.hpp"

namespace llm {
namespace {

namespace fs = std::filesystem;

constexpr char const* licences = "/usr/share/common-licenses";

std::string read_file(fs::path const& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream || !fs::is_regular_file(path)) throw error("cannot read text file " + path.string());
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Regular files of a folder, links left out, in name order.
std::vector<fs::path> regular_files(fs::path const& folder, std::string_view extension = {}) {
  std::vector<fs::path> files;
  std::error_code code;
  for (auto const& entry : fs::directory_iterator(folder, code)) {
    bool const is_wanted = extension.empty() || entry.path().extension() == extension;
    if (is_wanted && entry.is_regular_file() && !entry.is_symlink()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<fs::path> perl_manual() {
  std::vector<fs::path> files;
  std::error_code code;
  for (auto const& entry : fs::directory_iterator("/usr/share/perl", code)) {
    auto const found = entry.is_symlink() ? std::vector<fs::path>{} : regular_files(entry.path() / "pod", ".pod");
    files.insert(files.end(), found.begin(), found.end());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::string collapse_blanks(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool in_run = false;
  for (char const c : text) {
    bool const is_blank = c == ' ' || c == '\t';
    if (!is_blank) out += c;
    if (is_blank && !in_run) out += ' ';
    in_run = is_blank;
  }
  return out;
}

plain_text::plain_text(std::optional<fs::path> const& file, tokenizer const& tokenize, std::int64_t count) {
  if (file) {
    append({*file}, file->string(), tokenize);
  } else {
    append(regular_files(licences), licences, tokenize);
    if (is_short(count)) append(perl_manual(), "perl-doc", tokenize);
  }
  if (!is_short(count)) return;
  std::string const advice = file ? "give a longer one with --text" : "install the package perl-doc, or give a longer one with --text";
  throw error("the text (" + source_ + ") has " + std::to_string(tokens_.size()) + " tokens, but this length needs " +
              std::to_string(skipped_tokens + count) + ": " + advice);
}

void plain_text::append(std::vector<fs::path> const& files, std::string const& name, tokenizer const& tokenize) {
  if (files.empty()) return;
  std::string text;
  for (auto const& path : files) text += read_file(path);
  auto const added = tokenize.encode(collapse_blanks(text));
  tokens_.insert(tokens_.end(), added.begin(), added.end());
  source_.append(source_.empty() ? "" : " + ").append(name);
}

}  // namespace llm
