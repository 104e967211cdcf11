#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

/// Writes GGUF files for tests, right ones by default.
class gguf_builder {
 public:
  void text(std::string_view key, std::string_view value) {
    start_value(key, 8);
    append_text(values_, value);
  }
  void u32(std::string_view key, std::uint32_t value) {
    start_value(key, 4);
    append(values_, value);
  }
  void f32(std::string_view key, float value) {
    start_value(key, 6);
    append(values_, value);
  }
  void texts(std::string_view key, std::vector<std::string> const& items) {
    start_array(key, 8, items.size());
    for (auto const& item : items) append_text(values_, item);
  }
  void integers(std::string_view key, std::vector<std::int32_t> const& items) {
    start_array(key, 5, items.size());
    for (auto const item : items) append(values_, item);
  }

  void tensor(std::string_view name, std::vector<std::uint64_t> const& extents, std::uint32_t type, std::vector<std::byte> const& bytes) {
    ++tensor_count_;
    append_text(tensors_, name);
    append(tensors_, static_cast<std::uint32_t>(extents.size()));
    for (auto const extent : extents) append(tensors_, extent);
    append(tensors_, type);
    data_.resize((data_.size() + 31) / 32 * 32);
    append(tensors_, static_cast<std::uint64_t>(data_.size()));
    data_.insert(data_.end(), bytes.begin(), bytes.end());
  }
  void tensor(std::string_view name, std::vector<std::uint64_t> const& extents, std::vector<float> const& values) {
    auto const* const first = reinterpret_cast<std::byte const*>(values.data());
    tensor(name, extents, 0, {first, first + values.size() * sizeof(float)});
  }

  std::vector<std::byte> finish(std::uint32_t version = 3) const {
    std::vector<std::byte> file;
    for (char const c : std::string_view("GGUF")) file.push_back(static_cast<std::byte>(c));
    append(file, version);
    append(file, tensor_count_);
    append(file, value_count_);
    file.insert(file.end(), values_.begin(), values_.end());
    file.insert(file.end(), tensors_.begin(), tensors_.end());
    file.resize((file.size() + 31) / 32 * 32);
    file.insert(file.end(), data_.begin(), data_.end());
    return file;
  }

 private:
  template <class Number>
  static void append(std::vector<std::byte>& bytes, Number value) {
    auto const at = bytes.size();
    bytes.resize(at + sizeof value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
  static void append_text(std::vector<std::byte>& bytes, std::string_view text) {
    append(bytes, static_cast<std::uint64_t>(text.size()));
    for (char const c : text) bytes.push_back(static_cast<std::byte>(c));
  }
  void start_value(std::string_view key, std::uint32_t kind) {
    ++value_count_;
    append_text(values_, key);
    append(values_, kind);
  }
  void start_array(std::string_view key, std::uint32_t kind, std::uint64_t count) {
    start_value(key, 9);
    append(values_, kind);
    append(values_, count);
  }

  std::uint64_t tensor_count_ = 0;
  std::uint64_t value_count_ = 0;
  std::vector<std::byte> values_;
  std::vector<std::byte> tensors_;
  std::vector<std::byte> data_;
};
