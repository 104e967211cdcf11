#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "error.hpp"

namespace llm {

/// A cursor over bytes that refuses to move past their end; `what` names the field in the message.
class byte_reader {
 public:
  explicit byte_reader(std::span<std::byte const> bytes) : bytes_(bytes) {}

  std::uint64_t position() const { return position_; }
  std::uint64_t remaining() const { return bytes_.size() - position_; }

  std::span<std::byte const> take(std::uint64_t count, std::string_view what) {
    if (count > remaining()) {
      throw error(std::string(what) + " needs " + std::to_string(count) + " bytes at offset " + std::to_string(position_) + ", but only " +
                  std::to_string(remaining()) + " are left: the file is truncated or broken");
    }
    auto const taken = bytes_.subspan(position_, count);
    position_ += count;
    return taken;
  }

  /// Reads a little-endian number (the only byte order this engine runs on).
  template <class Number>
  Number number(std::string_view what) {
    static_assert(std::is_trivially_copyable_v<Number>);
    Number value;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }

  /// Reads a 64-bit length and that many characters.
  std::string_view text(std::string_view what) {
    auto const length = number<std::uint64_t>(what);
    auto const characters = take(length, what);
    return {reinterpret_cast<char const*>(characters.data()), characters.size()};
  }

 private:
  std::span<std::byte const> bytes_;
  std::uint64_t position_ = 0;
};

}  // namespace llm
