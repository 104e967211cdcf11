#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_type.hpp"

namespace llm {

enum class gguf_kind : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, array, u64, i64, f64 };

/// One metadata value, still in the file's bytes.
struct gguf_value {
  gguf_kind kind;  // of the value, or of the elements if it is an array
  bool is_array;
  std::uint64_t count;  // 1 unless it is an array
  std::span<std::byte const> bytes;
};

/// One tensor's place; extents as in the file, the contiguous one first.
struct gguf_tensor {
  std::string_view name;
  tensor_type type;
  std::uint32_t rank;
  std::array<std::uint64_t, 4> extents;  // those from rank on are 1
  std::span<std::byte const> bytes;

  std::uint64_t rows() const { return extents[1] * extents[2] * extents[3]; }
  std::uint64_t row_bytes() const { return bytes.size() / rows(); }
};

/// The directory of a GGUF file (versions 2 and 3, little-endian) over bytes that the caller keeps alive.
/// Every count, length and offset is checked against the size of the file; nothing is copied, so memory stays below the file's own size.
class gguf_view {
 public:
  /// Throws llm::error saying which field is broken and what was expected.
  explicit gguf_view(std::span<std::byte const> file);

  std::optional<std::uint64_t> find_integer(std::string_view key) const;
  std::optional<double> find_real(std::string_view key) const;
  std::optional<std::string_view> find_text(std::string_view key) const;

  /// As above, but a missing key throws.
  std::uint64_t integer(std::string_view key) const;
  double real(std::string_view key) const;
  std::string_view text(std::string_view key) const;
  std::vector<std::string_view> texts(std::string_view key) const;
  std::vector<std::int32_t> integers(std::string_view key) const;

  gguf_tensor const* find_tensor(std::string_view name) const;
  std::map<std::string_view, gguf_tensor> const& tensors() const { return tensors_; }

 private:
  gguf_value const* find(std::string_view key) const;
  gguf_value const& require(std::string_view key, bool is_array) const;

  std::map<std::string_view, gguf_value> values_;
  std::map<std::string_view, gguf_tensor> tensors_;
};

}  // namespace llm
