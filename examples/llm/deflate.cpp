#include "deflate.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace llm {
namespace {

/// Bits in deflate's order: lowest first, codes of the Huffman tables highest first.
class bit_writer {
 public:
  explicit bit_writer(std::vector<std::uint8_t>& out) : out_(out) {}

  void bits(std::uint32_t value, int count) {
    pending_ |= static_cast<std::uint64_t>(value) << filled_;
    filled_ += count;
    for (; filled_ >= 8; filled_ -= 8, pending_ >>= 8) out_.push_back(static_cast<std::uint8_t>(pending_));
  }

  void code(std::uint32_t value, int count) {
    for (int i = count - 1; i >= 0; --i) bits((value >> i) & 1, 1);
  }

  void flush() {
    if (filled_ > 0) bits(0, 8 - filled_);
  }

 private:
  std::vector<std::uint8_t>& out_;
  std::uint64_t pending_ = 0;
  int filled_ = 0;
};

/// The fixed code for literals, lengths and the end of a block. [RFC 1951, 3.2.6]
void write_symbol(bit_writer& writer, std::uint32_t symbol) {
  if (symbol < 144) return writer.code(0x30 + symbol, 8);
  if (symbol < 256) return writer.code(0x190 + symbol - 144, 9);
  if (symbol < 280) return writer.code(symbol - 256, 7);
  writer.code(0xC0 + symbol - 280, 8);
}

constexpr std::array<std::uint32_t, 29> length_base{3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                                    31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
constexpr std::array<int, 29> length_bits{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};

std::uint32_t distance_base(std::uint32_t code) { return code < 2 ? code + 1 : (2 + code % 2) * (1U << (code / 2 - 1)) + 1; }

/// A repeat of `length` bytes, 3 to 258, from `distance` bytes back, 1 to 32768.
void write_repeat(bit_writer& writer, std::uint32_t length, std::uint32_t distance) {
  auto const index = static_cast<std::size_t>(std::upper_bound(length_base.begin(), length_base.end(), length) - length_base.begin() - 1);
  write_symbol(writer, 257 + static_cast<std::uint32_t>(index));
  writer.bits(length - length_base[index], length_bits[index]);
  std::uint32_t code = 29;
  while (distance_base(code) > distance) --code;
  writer.code(code, 5);
  writer.bits(distance - distance_base(code), code < 2 ? 0 : static_cast<int>(code / 2 - 1));
}

std::uint32_t adler32(std::span<std::uint8_t const> data) {
  std::uint32_t a = 1;
  std::uint32_t b = 0;
  for (auto const byte : data) {
    a = (a + byte) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

/// Where each triple of bytes was last seen.
class triple_table {
 public:
  explicit triple_table(std::span<std::uint8_t const> data) : data_(data), last_(size, none) {}

  /// Length of the repeat at `at`, 0 if there is none worth writing; remembers the place.
  std::uint32_t match(std::size_t at, std::uint32_t& distance) {
    if (at + 3 > data_.size()) return 0;
    std::uint32_t const key = (data_[at] * 0x9E5FU + data_[at + 1] * 0x3D1U + data_[at + 2] * 0x1FU) % size;
    auto const before = std::exchange(last_[key], at);
    if (before == none || at - before > 32768) return 0;
    auto const most = std::min<std::size_t>(258, data_.size() - at);
    std::size_t length = 0;
    while (length < most && data_[before + length] == data_[at + length]) ++length;
    distance = static_cast<std::uint32_t>(at - before);
    return length >= 3 ? static_cast<std::uint32_t>(length) : 0;
  }

 private:
  static constexpr std::uint32_t size = 1U << 16;
  static constexpr std::size_t none = ~std::size_t{0};

  std::span<std::uint8_t const> data_;
  std::vector<std::size_t> last_;
};

}  // namespace

std::vector<std::uint8_t> zlib_stream(std::span<std::uint8_t const> data) {
  std::vector<std::uint8_t> out{0x78, 0x01};
  bit_writer writer(out);
  writer.bits(1, 1);  // the last block
  writer.bits(1, 2);  // of fixed codes
  triple_table seen(data);
  for (std::size_t at = 0; at < data.size();) {
    std::uint32_t distance = 0;
    auto const length = seen.match(at, distance);
    if (length == 0) {
      write_symbol(writer, data[at++]);
      continue;
    }
    write_repeat(writer, length, distance);
    for (std::uint32_t i = 1; i < length; ++i) seen.match(at + i, distance);
    at += length;
  }
  write_symbol(writer, 256);
  writer.flush();
  auto const sum = adler32(data);
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<std::uint8_t>(sum >> shift));
  return out;
}

}  // namespace llm
