#include "mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "error.hpp"

namespace llm {
namespace {

std::size_t size_of_regular_file(std::filesystem::path const& path) {
  std::error_code code;
  auto const status = std::filesystem::status(path, code);
  if (!std::filesystem::exists(status)) throw error("no such file: " + path.string());
  if (!std::filesystem::is_regular_file(status)) throw error("not a regular file: " + path.string());
  auto const size = std::filesystem::file_size(path, code);
  if (code) throw error("cannot read the size of " + path.string() + ": " + code.message());
  if (size == 0) throw error("file is empty: " + path.string());
  return size;
}

}  // namespace

mapped_file::mapped_file(std::filesystem::path const& path) : size_(size_of_regular_file(path)) {
  int const descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw error("cannot open " + path.string() + ": " + std::strerror(errno));
  void* const address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  int const reason = errno;
  ::close(descriptor);
  if (address == MAP_FAILED) throw error("cannot map " + path.string() + ": " + std::strerror(reason));
  data_ = static_cast<std::byte const*>(address);
}

mapped_file::~mapped_file() { ::munmap(const_cast<std::byte*>(data_), size_); }

}  // namespace llm
