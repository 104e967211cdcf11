#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace llm {

/// A zlib stream (RFC 1950, 1951) in one block of fixed codes, with repeats found through a table of recent triples.
std::vector<std::uint8_t> zlib_stream(std::span<std::uint8_t const> data);

}  // namespace llm
