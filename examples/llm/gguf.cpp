#include "gguf.hpp"

#include <cstring>
#include <limits>

#include "byte_reader.hpp"
#include "error.hpp"
#include "quoted.hpp"

namespace llm {
namespace {

constexpr std::uint64_t smallest_value_bytes = 8 + 4 + 1;           // key length, kind, one byte
constexpr std::uint64_t smallest_tensor_bytes = 8 + 4 + 8 + 4 + 8;  // name length, rank, one extent, type, offset

std::uint64_t bytes_of(gguf_kind kind) {
  switch (kind) {
    case gguf_kind::u8:
    case gguf_kind::i8:
    case gguf_kind::boolean:
      return 1;
    case gguf_kind::u16:
    case gguf_kind::i16:
      return 2;
    case gguf_kind::u32:
    case gguf_kind::i32:
    case gguf_kind::f32:
      return 4;
    case gguf_kind::u64:
    case gguf_kind::i64:
    case gguf_kind::f64:
    case gguf_kind::text:
      return 8;  // of a text: its length
    case gguf_kind::array:
      break;
  }
  return 0;
}

gguf_kind read_kind(byte_reader& reader, std::string_view key) {
  auto const number = reader.number<std::uint32_t>("the kind of metadata value " + quoted(key));
  if (number > static_cast<std::uint32_t>(gguf_kind::f64)) {
    throw error("metadata value " + quoted(key) + " has kind " + std::to_string(number) + ", expected 0 to 12");
  }
  return static_cast<gguf_kind>(number);
}

gguf_value read_value(byte_reader& reader, std::span<std::byte const> file, std::string_view key) {
  gguf_value value{.kind = read_kind(reader, key), .is_array = false, .count = 1, .bytes = {}};
  std::string const what = "metadata value " + quoted(key);
  if (value.kind == gguf_kind::array) {
    value.is_array = true;
    value.kind = read_kind(reader, key);
    if (value.kind == gguf_kind::array) throw error(what + " is an array of arrays, which is not supported");
    value.count = reader.number<std::uint64_t>("the length of array " + quoted(key));
  }
  if (value.count > reader.remaining() / bytes_of(value.kind)) {
    throw error(what + " claims " + std::to_string(value.count) + " elements, but only " + std::to_string(reader.remaining()) +
                " bytes are left: the file is truncated or broken");
  }
  auto const begin = reader.position();
  if (value.kind == gguf_kind::text) {
    for (std::uint64_t i = 0; i < value.count; ++i) reader.text(what);
  } else {
    reader.take(value.count * bytes_of(value.kind), what);
  }
  value.bytes = file.subspan(begin, reader.position() - begin);
  return value;
}

struct raw_tensor {
  gguf_tensor tensor;
  std::uint64_t offset;
};

/// Elements of the tensor; throws if an extent is 0 or their product leaves 63 bits.
std::uint64_t count_elements(gguf_tensor const& tensor) {
  std::uint64_t elements = 1;
  for (auto const extent : tensor.extents) {
    if (extent == 0) throw error("tensor " + quoted(tensor.name) + " has an extent of 0, expected at least 1");
    if (elements > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / extent) {
      throw error("tensor " + quoted(tensor.name) + " has more elements than 64 bits can count");
    }
    elements *= extent;
  }
  return elements;
}

raw_tensor read_tensor(byte_reader& reader) {
  raw_tensor raw{};
  auto& tensor = raw.tensor;
  tensor.name = reader.text("the name of a tensor");
  std::string const what = "tensor " + quoted(tensor.name);
  tensor.rank = reader.number<std::uint32_t>("the rank of " + what);
  if (tensor.rank < 1 || tensor.rank > 4) throw error(what + " has rank " + std::to_string(tensor.rank) + ", expected 1 to 4");
  tensor.extents = {1, 1, 1, 1};
  for (std::uint32_t i = 0; i < tensor.rank; ++i) tensor.extents[i] = reader.number<std::uint64_t>("an extent of " + what);
  tensor.type = tensor_type_from(reader.number<std::uint32_t>("the type of " + what), quoted(tensor.name));
  raw.offset = reader.number<std::uint64_t>("the offset of " + what);
  return raw;
}

/// Finds the tensor's bytes in the data section. `[data_bytes]`
gguf_tensor place_tensor(raw_tensor const& raw, std::span<std::byte const> data, std::uint64_t alignment) {
  auto tensor = raw.tensor;
  std::string const what = "tensor " + quoted(tensor.name);
  auto const facts = facts_of(tensor.type);
  auto const elements = count_elements(tensor);
  if (tensor.extents[0] % facts.block_elements != 0) {
    throw error(what + " has rows of " + std::to_string(tensor.extents[0]) + " elements, expected a multiple of " +
                std::to_string(facts.block_elements) + " for type " + std::string(facts.name));
  }
  if (raw.offset % alignment != 0) {
    throw error(what + " starts at offset " + std::to_string(raw.offset) + ", expected a multiple of " + std::to_string(alignment));
  }
  auto const blocks = elements / facts.block_elements;
  if (raw.offset > data.size() || blocks > (data.size() - raw.offset) / facts.block_bytes) {
    throw error(what + " needs " + std::to_string(blocks) + " blocks of " + std::to_string(facts.block_bytes) + " bytes at offset " +
                std::to_string(raw.offset) + " of " + std::to_string(data.size()) + " data bytes: the file is truncated or broken");
  }
  tensor.bytes = data.subspan(raw.offset, blocks * facts.block_bytes);
  return tensor;
}

void check_version(std::uint32_t version) {
  if (version == 2 || version == 3) return;
  bool const big_endian = version == 0x02000000 || version == 0x03000000;
  throw error(big_endian ? "the GGUF file is big-endian, expected little-endian"
                         : "GGUF version " + std::to_string(version) + " is not supported, expected 2 or 3");
}

std::uint64_t read_count(byte_reader& reader, std::uint64_t smallest_bytes, std::string_view what) {
  auto const count = reader.number<std::uint64_t>(what);
  if (count > reader.remaining() / smallest_bytes) {
    throw error(std::string(what) + " is " + std::to_string(count) + ", more than the file's " + std::to_string(reader.remaining()) +
                " remaining bytes can hold: the file is truncated or broken");
  }
  return count;
}

template <class From>
double number_at(std::byte const* place) {
  From value;
  std::memcpy(&value, place, sizeof value);
  return static_cast<double>(value);
}

}  // namespace

gguf_view::gguf_view(std::span<std::byte const> file) {
  byte_reader reader(file);
  if (reader.remaining() < 4 || std::memcmp(reader.take(4, "the magic").data(), "GGUF", 4) != 0) {
    throw error("not a GGUF file: expected the four letters GGUF at its start");
  }
  check_version(reader.number<std::uint32_t>("the version"));
  auto const tensor_count = read_count(reader, smallest_tensor_bytes, "the number of tensors");
  auto const value_count = read_count(reader, smallest_value_bytes, "the number of metadata values");
  for (std::uint64_t i = 0; i < value_count; ++i) {
    auto const key = reader.text("a metadata key");
    if (!values_.emplace(key, read_value(reader, file, key)).second) throw error("metadata key " + quoted(key) + " appears twice");
  }
  std::vector<raw_tensor> raw;
  for (std::uint64_t i = 0; i < tensor_count; ++i) raw.push_back(read_tensor(reader));

  auto const alignment = find_integer("general.alignment").value_or(32);
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > 65536) {
    throw error("general.alignment is " + std::to_string(alignment) + ", expected a power of two up to 65536");
  }
  reader.take((alignment - reader.position() % alignment) % alignment * (tensor_count != 0), "the padding before the tensor data");
  auto const data = file.subspan(reader.position());
  for (auto const& entry : raw) {
    auto const tensor = place_tensor(entry, data, alignment);
    if (!tensors_.emplace(tensor.name, tensor).second) throw error("tensor " + quoted(tensor.name) + " appears twice");
  }
}

gguf_value const* gguf_view::find(std::string_view key) const {
  auto const found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

gguf_value const& gguf_view::require(std::string_view key, bool is_array) const {
  auto const* const value = find(key);
  if (value == nullptr) throw error("metadata value " + quoted(key) + " is missing");
  if (value->is_array != is_array) {
    throw error("metadata value " + quoted(key) +
                (is_array ? " is a single value, expected an array" : " is an array, expected a single value"));
  }
  return *value;
}

std::optional<double> gguf_view::find_real(std::string_view key) const {
  if (find(key) == nullptr) return std::nullopt;
  auto const& value = require(key, false);
  auto const* const place = value.bytes.data();
  switch (value.kind) {
    case gguf_kind::u8:
    case gguf_kind::boolean:
      return number_at<std::uint8_t>(place);
    case gguf_kind::i8:
      return number_at<std::int8_t>(place);
    case gguf_kind::u16:
      return number_at<std::uint16_t>(place);
    case gguf_kind::i16:
      return number_at<std::int16_t>(place);
    case gguf_kind::u32:
      return number_at<std::uint32_t>(place);
    case gguf_kind::i32:
      return number_at<std::int32_t>(place);
    case gguf_kind::f32:
      return number_at<float>(place);
    case gguf_kind::u64:
      return number_at<std::uint64_t>(place);
    case gguf_kind::i64:
      return number_at<std::int64_t>(place);
    case gguf_kind::f64:
      return number_at<double>(place);
    case gguf_kind::text:
    case gguf_kind::array:
      break;
  }
  throw error("metadata value " + quoted(key) + " is a text, expected a number");
}

std::optional<std::uint64_t> gguf_view::find_integer(std::string_view key) const {
  auto const value = find_real(key);
  if (!value) return std::nullopt;
  constexpr double limit = 9007199254740992.0;  // 2^53: beyond, a double is no longer exact; no real field comes near
  if (!(*value >= 0 && *value <= limit) || *value != static_cast<double>(static_cast<std::uint64_t>(*value))) {
    throw error("metadata value " + quoted(key) + " is " + std::to_string(*value) + ", expected a whole number from 0 to 2^53");
  }
  return static_cast<std::uint64_t>(*value);
}

std::optional<std::string_view> gguf_view::find_text(std::string_view key) const {
  if (find(key) == nullptr) return std::nullopt;
  auto const& value = require(key, false);
  if (value.kind != gguf_kind::text) throw error("metadata value " + quoted(key) + " is a number, expected a text");
  return byte_reader(value.bytes).text(key);
}

std::uint64_t gguf_view::integer(std::string_view key) const {
  require(key, false);
  return *find_integer(key);
}

double gguf_view::real(std::string_view key) const {
  require(key, false);
  return *find_real(key);
}

std::string_view gguf_view::text(std::string_view key) const {
  require(key, false);
  return *find_text(key);
}

std::vector<std::string_view> gguf_view::texts(std::string_view key) const {
  auto const& value = require(key, true);
  if (value.kind != gguf_kind::text) throw error("metadata array " + quoted(key) + " holds numbers, expected texts");
  byte_reader reader(value.bytes);
  std::vector<std::string_view> result;
  result.reserve(value.count);
  for (std::uint64_t i = 0; i < value.count; ++i) result.push_back(reader.text(key));
  return result;
}

std::vector<std::int32_t> gguf_view::integers(std::string_view key) const {
  auto const& value = require(key, true);
  if (value.kind != gguf_kind::i32 && value.kind != gguf_kind::u32) {
    throw error("metadata array " + quoted(key) + " is expected to hold 32-bit integers");
  }
  std::vector<std::int32_t> result(value.count);
  if (value.count != 0) std::memcpy(result.data(), value.bytes.data(), value.bytes.size());
  return result;
}

gguf_tensor const* gguf_view::find_tensor(std::string_view name) const {
  auto const found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

}  // namespace llm
