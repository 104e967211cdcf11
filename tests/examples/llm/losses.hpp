#pragma once
#include <vector>

#include "engine.hpp"

/// 150 tokens of no meaning.
inline std::vector<llm::token> some_tokens() {
  std::vector<llm::token> tokens;
  for (int i = 0; i < 150; ++i) tokens.push_back((i * 37 + i * i) % 256);
  return tokens;
}

/// Losses of all rows, of an engine that begins anew.
inline std::vector<double> losses_of(llm::engine& engine, std::vector<llm::token> const& tokens, llm::prefill_request request) {
  auto const rows = static_cast<std::int64_t>(tokens.size());
  request.kept_rows = rows;
  engine.reset(rows);
  engine.prefill(tokens, request);
  std::vector<double> losses;
  for (auto const& row : engine.score(tokens)) losses.push_back(row.loss);
  return losses;
}
