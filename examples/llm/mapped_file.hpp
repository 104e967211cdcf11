#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace llm {

/// A regular file mapped read-only into memory.
class mapped_file {
 public:
  /// Throws llm::error if the path is missing, not a regular file, empty, or cannot be mapped.
  explicit mapped_file(std::filesystem::path const& path);
  ~mapped_file();
  mapped_file(mapped_file const&) = delete;
  mapped_file& operator=(mapped_file const&) = delete;

  std::span<std::byte const> bytes() const { return {data_, size_}; }

 private:
  std::byte const* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace llm
