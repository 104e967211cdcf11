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
    std::string head = "GGUF";
    append(head, version);
    append(head, tensor_count_);
    append(head, value_count_);
    head += values_ + tensors_;
    head.resize((head.size() + 31) / 32 * 32);
    std::vector<std::byte> file(head.size() + data_.size());
    std::memcpy(file.data(), head.data(), head.size());
    if (!data_.empty()) std::memcpy(file.data() + head.size(), data_.data(), data_.size());
    return file;
  }

 private:
  template <class Number>
  static void append(std::string& bytes, Number value) {
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    bytes.append(raw, sizeof value);
  }
  static void append_text(std::string& bytes, std::string_view text) {
    append(bytes, static_cast<std::uint64_t>(text.size()));
    bytes += text;
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
  std::string values_;
  std::string tensors_;
  std::vector<std::byte> data_;
};
