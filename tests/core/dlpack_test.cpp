#include <lacuna/core/dlpack.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace {

struct tensor {  // the members of dlpack.h's DLTensor
  void* data;
  std::int32_t ndim;
  struct {
    std::uint8_t code, bits;
    std::uint16_t lanes;
  } dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};

}  // namespace

TEST_CASE("a DLPack tensor becomes a view, dense when it has no strides") {
  std::vector<float> rows(30);
  for (int i = 0; i < 30; ++i) rows[i] = static_cast<float>(i);
  std::int64_t shape[] = {2, 3, 4}, strides[] = {12, 4, 1};
  auto const dense = lacuna::from_dlpack<float, 3>(tensor{rows.data(), 3, {2, 32, 1}, shape, nullptr, 4 * sizeof(float)});
  auto const strided = lacuna::from_dlpack<float const, 3>(tensor{rows.data(), 3, {2, 32, 1}, shape, strides, 0});
  CHECK(dense(1, 2, 3) == 27);
  CHECK(strided(1, 2, 3) == 23);
  CHECK(dense.extent[2] == 4);
}

TEST_CASE("another rank or element type is refused") {
  std::int64_t shape[] = {2, 3};
  tensor const t{nullptr, 2, {4, 16, 1}, shape, nullptr, 0};
  CHECK_NOTHROW((void)lacuna::from_dlpack<lacuna::bfloat16, 2>(t));
  CHECK_THROWS_AS((void)(lacuna::from_dlpack<lacuna::float16, 2>(t)), lacuna::invalid_argument);
  CHECK_THROWS_AS((void)(lacuna::from_dlpack<float, 2>(t)), lacuna::invalid_argument);
  CHECK_THROWS_AS((void)(lacuna::from_dlpack<lacuna::bfloat16, 3>(t)), lacuna::invalid_argument);
}
