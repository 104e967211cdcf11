#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace llm {
namespace {

template <class... Values>
std::string format(char const* pattern, Values... values) {
  char buffer[128];
  std::snprintf(buffer, sizeof buffer, pattern, values...);
  return buffer;
}

std::vector<std::string> cells_of(report_row const& row) {
  return {std::to_string(row.length),
          row.task,
          row.pattern,
          row.passkeys == 0 ? "-" : std::to_string(row.right) + " of " + std::to_string(row.passkeys),
          format("%.3f", row.visited_share),
          format("%.4f", row.output_error),
          format("%.3f", row.nll),
          format("%.2f", row.prefill_seconds),
          format("%.3f", row.decode_seconds)};
}

std::string json_text(std::string const& text) {
  std::string out = "\"";
  for (char const c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      out += format("\\u%04x", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string json_number(double value) { return std::isfinite(value) ? format("%.9g", value) : "null"; }

std::string json_row(report_row const& row) {
  std::string out = "{";
  auto const add = [&](char const* name, std::string const& value) {
    out.append(out.size() > 1 ? ", \"" : "\"").append(name).append("\": ").append(value);
  };
  add("pattern", json_text(row.pattern));
  add("task", json_text(row.task));
  add("length", std::to_string(row.length));
  add("passkeys", std::to_string(row.passkeys));
  add("right", std::to_string(row.right));
  add("visited_share", json_number(row.visited_share));
  add("output_error", json_number(row.output_error));
  add("nll", json_number(row.nll));
  add("prefill_seconds", json_number(row.prefill_seconds));
  add("decode_seconds", json_number(row.decode_seconds));
  return out + "}";
}

}  // namespace

std::string table_of(report const& results) {
  std::vector<std::vector<std::string>> lines{{"length", "task", "pattern", "right", "visited", "error", "loss", "prefill s", "token s"}};
  for (auto const& row : results.rows) lines.push_back(cells_of(row));
  std::vector<std::size_t> widths(lines[0].size());
  for (auto const& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string out;
  for (auto const& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      std::string const gap(widths[i] - line[i].size(), ' ');
      bool const is_name = i == 1 || i == 2;
      out.append(i == 0 ? "" : "  ").append(is_name ? line[i] + gap : gap + line[i]);
    }
    out += '\n';
  }
  return out;
}

std::string json_of(report const& results) {
  std::string out = "{\"model\": " + json_text(results.model) + ", \"backend\": " + json_text(results.backend) + ", \"rows\": [";
  for (std::size_t i = 0; i < results.rows.size(); ++i) out.append(i == 0 ? "\n  " : ",\n  ").append(json_row(results.rows[i]));
  return out + "\n]}\n";
}

}  // namespace llm
