#include <lacuna/core/tensor_view.hpp>

#include <doctest/doctest.h>

#include <array>
#include <numeric>
#include <vector>

namespace {

using lacuna::index_t, lacuna::tensor_view;

TEST_CASE("a dense view is row-major") {
  std::vector<int> memory(2 * 3 * 4);
  std::iota(memory.begin(), memory.end(), 0);
  tensor_view<int, 3> const v(memory.data(), 2, 3, 4);
  CHECK(v.stride[0] == 12);
  CHECK(v.stride[1] == 4);
  CHECK(v.stride[2] == 1);
  CHECK(v.size() == 24);
  CHECK(v(1, 2, 3) == 23);
  CHECK(v.row(1, 0) == &memory[12]);
}

TEST_CASE("one projection holds queries, keys and values as three views") {
  int const tokens = 5, query_heads = 4, kv_heads = 2, dim = 8, width = (query_heads + 2 * kv_heads) * dim;
  std::vector<float> fused(tokens * width);
  std::iota(fused.begin(), fused.end(), 0.0f);
  auto const part = [&](int first_head, int heads) {
    return tensor_view<float, 4>(&fused[first_head * dim], {1, tokens, heads, dim}, {0, width, dim, 1});
  };
  CHECK(part(0, query_heads)(0, 3, 1, 2) == 3 * width + dim + 2);
  CHECK(part(query_heads, kv_heads)(0, 3, 1, 2) == 3 * width + (query_heads + 1) * dim + 2);
  CHECK(part(query_heads + kv_heads, kv_heads)(0, 0, 0, 0) == (query_heads + kv_heads) * dim);
}

TEST_CASE("offsets pass 2^31 and 2^32 elements") {
  std::byte nothing{};
  tensor_view<std::byte, 4> const v(&nothing, 70'000, 16, 8, 256);
  auto const at = [&](index_t a, int b, int c, int d) {
    return reinterpret_cast<std::uintptr_t>(v.row(a, b, c)) + d - reinterpret_cast<std::uintptr_t>(&nothing);
  };
  CHECK(v.size() == 70'000 * index_t{32'768});
  CHECK(at(69'999, 15, 7, 255) == 70'000u * std::uintptr_t{32'768} - 1);
  CHECK(at(65'536, 0, 0, 0) == std::uintptr_t{1} << 31);
}

TEST_CASE("a view of mutable elements reads as one of const elements, not the reverse") {
  std::vector<int> memory(6);
  tensor_view<int, 2> const v(memory.data(), 2, 3);
  tensor_view<int const, 2> const readable = v;
  CHECK(readable.data == v.data);
  CHECK(readable.stride[0] == 3);
  static_assert(!std::is_convertible_v<tensor_view<int const, 2>, tensor_view<int, 2>>);
  static_assert(!std::is_convertible_v<tensor_view<int, 2>, tensor_view<int, 3>>);
}

/// What std::mdspan and its copies look like.
struct own_mdspan {
  float* memory;
  std::array<int, 2> extents, strides;

  static constexpr std::size_t rank() { return 2; }
  float* data_handle() const { return memory; }
  int extent(int r) const { return extents[r]; }
  int stride(int r) const { return strides[r]; }
};

TEST_CASE("anything like an mdspan converts") {
  std::vector<float> memory(20);
  own_mdspan const source{memory.data(), {2, 3}, {10, 1}};
  tensor_view<float, 2> const v = source;
  CHECK(&v(1, 2) == &memory[12]);
  CHECK(v.extent[1] == 3);
  static_assert(!std::is_convertible_v<own_mdspan, tensor_view<float, 3>>);
}

TEST_CASE("an empty view is false and has no elements") {
  tensor_view<float, 4> const v;
  CHECK_FALSE(static_cast<bool>(v));
  CHECK(v.size() == 0);
}

}  // namespace
