#include <lacuna/core/check_view.hpp>

#include <doctest/doctest.h>

#include <vector>

namespace {

using lacuna::index_t, lacuna::tensor_view;

std::vector<float> memory(1000);

TEST_CASE("views that no memory holds are refused by name, however their sizes would overflow") {
  index_t const huge = index_t{1} << 60;
  CHECK(lacuna::detail::check_span("x", tensor_view<float, 2>{memory.data(), {huge, 16}, {16, 1}}).message().find("x is [") == 0);
  CHECK(lacuna::detail::check_span("x", tensor_view<float, 2>{memory.data(), {3, 16}, {huge, 1}}).message().find("spans more") !=
        std::string::npos);
  CHECK(lacuna::detail::check_span("x", tensor_view<float, 2>{memory.data(), {-1, 16}, {16, 1}}).message().find("at least 0") !=
        std::string::npos);
  CHECK(lacuna::detail::check_span("x", tensor_view<float, 2>{memory.data(), {2, 16}, {-16, 1}}).message().find("x has stride -16") == 0);
  CHECK(lacuna::detail::check_span("x", tensor_view<float, 2>{memory.data(), {0, 16}, {huge, 1}}).ok());
  CHECK(lacuna::detail::check_span("x", tensor_view<float, 2>{memory.data(), {index_t{1} << 33, 16}, {16, 1}}).ok());
}

TEST_CASE("a view that is written has memory for each of its elements; a dimension of one needs no stride") {
  CHECK_FALSE(lacuna::detail::check_written("x", tensor_view<float, 2>{memory.data(), {2, 16}, {0, 1}}).ok());
  CHECK(lacuna::detail::check_written("x", tensor_view<float, 2>{memory.data(), {1, 16}, {0, 1}}).ok());
  CHECK(lacuna::detail::check_written("x", tensor_view<float, 2>{memory.data(), {0, 16}, {0, 1}}).ok());
}

TEST_CASE("overlap is about the addresses between first and last element, sameness about every member") {
  tensor_view<float, 2> const a{memory.data(), 3, 10}, next{memory.data() + 30, 3, 10}, late{memory.data() + 29, 1, 1};
  CHECK_FALSE(lacuna::detail::overlap(a, next));
  CHECK(lacuna::detail::overlap(a, late));
  CHECK_FALSE(lacuna::detail::overlap(a, tensor_view<float, 2>{memory.data(), 0, 10}));
  CHECK(lacuna::detail::same_view(a, a));
  CHECK_FALSE(lacuna::detail::same_view(a, tensor_view<float, 2>{memory.data(), {3, 10}, {11, 1}}));
  CHECK_FALSE(lacuna::detail::same_view(a, next));
}

}  // namespace
