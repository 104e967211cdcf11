#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace llm {

/// What one pattern did.
struct report_row {
  std::string pattern;
  std::string task;
  std::int64_t length = 0;
  int passkeys = 0;  // questions asked
  int right = 0;
  double visited_share = 0;
  double output_error = 0;
  double nll = 0;
  double prefill_seconds = 0;  // of one prompt, mean
  double decode_seconds = 0;   // of one answer token, mean
};

struct report {
  std::string model;
  std::string backend;
  std::vector<report_row> rows;
};

/// A table for people.
std::string table_of(report const& results);

/// The same for programs. Numbers that are not finite become null.
std::string json_of(report const& results);

}  // namespace llm
