#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

/// Unpacks a zlib stream of one block with fixed codes, written from RFC 1951 apart from the packer, and checks its sum.
class inflater {
 public:
  explicit inflater(std::span<std::uint8_t const> stream) : stream_(stream) {}

  std::vector<std::uint8_t> run() {
    expect(stream_.size() > 6 && stream_[0] == 0x78 && (stream_[0] * 256 + stream_[1]) % 31 == 0, "zlib header");
    at_ = 16;
    expect(bits(1) == 1, "a last block");
    expect(bits(2) == 1, "fixed codes");
    for (std::uint32_t symbol = read_symbol(); symbol != 256; symbol = read_symbol()) {
      if (symbol < 256) {
        out_.push_back(static_cast<std::uint8_t>(symbol));
      } else {
        copy(symbol - 257);
      }
    }
    check_sum();
    return out_;
  }

 private:
  static void expect(bool condition, char const* what) {
    if (!condition) throw std::runtime_error(std::string("inflate: expected ") + what);
  }

  std::uint32_t bits(std::uint32_t count) {
    std::uint32_t value = 0;
    for (std::uint32_t i = 0; i < count; ++i, ++at_) value |= static_cast<std::uint32_t>(stream_[at_ / 8] >> (at_ % 8) & 1) << i;
    return value;
  }

  std::uint32_t read_symbol() {
    std::uint32_t code = 0;
    for (int length = 1; length <= 9; ++length) {
      code = code << 1 | bits(1);
      if (length == 7 && code < 24) return 256 + code;
      if (length == 8 && code >= 48 && code < 192) return code - 48;
      if (length == 8 && code >= 192 && code < 200) return 280 + code - 192;
      if (length == 9 && code >= 400) return 144 + code - 400;
    }
    throw std::runtime_error("inflate: no such code");
  }

  void copy(std::uint32_t code) {
    std::uint32_t length = 3;
    if (code == 28) {
      length = 258;
    } else {
      for (std::uint32_t i = 0; i < code; ++i) length += 1U << (i < 8 ? 0 : i / 4 - 1);
      length += bits(code < 8 ? 0 : code / 4 - 1);
    }
    std::uint32_t distance_code = 0;
    for (int i = 0; i < 5; ++i) distance_code = distance_code << 1 | bits(1);
    std::uint32_t distance = 1;
    for (std::uint32_t i = 0; i < distance_code; ++i) distance += 1U << (i < 2 ? 0 : i / 2 - 1);
    distance += bits(distance_code < 2 ? 0 : distance_code / 2 - 1);
    expect(distance <= out_.size(), "a distance inside the output");
    for (; length > 0; --length) out_.push_back(out_[out_.size() - distance]);
  }

  void check_sum() {
    at_ = (at_ + 7) / 8 * 8;
    std::uint32_t sum = 0;
    for (int i = 0; i < 4; ++i) sum = sum << 8 | bits(8);
    std::uint64_t a = 1, b = 0;
    for (auto const byte : out_) a = (a + byte) % 65521, b = (b + a) % 65521;
    expect(sum == (b << 16 | a), "the right sum");
  }

  std::span<std::uint8_t const> stream_;
  std::size_t at_ = 0;  // bits read
  std::vector<std::uint8_t> out_;
};

inline std::vector<std::uint8_t> inflate(std::span<std::uint8_t const> stream) { return inflater(stream).run(); }
