#pragma once
#include <lacuna/core/math.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>

namespace lacuna {

template <class M>
concept MdspanLike = requires(M const& m) {
  m.data_handle();
  m.extent(0);
  m.stride(0);
  { M::rank() } -> std::convertible_to<std::size_t>;
};

/// Strided view of somebody else's memory. Attention tensors are [batch, token, head, dim] with innermost stride 1; a fused QKV
/// projection is three views of one buffer. Strides count elements.
template <class T, int Rank>
struct tensor_view {
  static_assert(Rank > 0);
  T* data = nullptr;
  index_t extent[Rank] = {};
  index_t stride[Rank] = {};

  tensor_view() = default;

  /// Dense row-major view.
  template <std::convertible_to<index_t>... Extents>
    requires(sizeof...(Extents) == Rank)
  LACUNA_HD constexpr tensor_view(T* memory, Extents... extents) : data{memory}, extent{static_cast<index_t>(extents)...} {
    stride[Rank - 1] = 1;
    for (int r = Rank - 2; r >= 0; --r) stride[r] = stride[r + 1] * extent[r + 1];
  }

  LACUNA_HD constexpr tensor_view(T* memory, index_t const (&extents)[Rank], index_t const (&strides)[Rank]) : data{memory} {
    for (int r = 0; r < Rank; ++r) extent[r] = extents[r], stride[r] = strides[r];
  }

  /// Any mdspan-like value of the same rank.
  template <MdspanLike M>
    requires(M::rank() == Rank)
  constexpr tensor_view(M const& m) : data{m.data_handle()} {
    for (int r = 0; r < Rank; ++r) extent[r] = static_cast<index_t>(m.extent(r)), stride[r] = static_cast<index_t>(m.stride(r));
  }

  /// A view of mutable elements as one of const elements.
  template <class U>
    requires(std::same_as<T, U const> && !std::is_const_v<U>)
  LACUNA_HD constexpr tensor_view(tensor_view<U, Rank> const& v) : tensor_view{v.data, v.extent, v.stride} {}

  template <std::convertible_to<index_t>... Indices>
    requires(sizeof...(Indices) == Rank)
  LACUNA_HD constexpr T& operator()(Indices... indices) const {
    return data[offset(indices...)];
  }

  /// Start of the innermost row at the leading indices.
  template <std::convertible_to<index_t>... Indices>
    requires(sizeof...(Indices) == Rank - 1)
  LACUNA_HD constexpr T* row(Indices... indices) const {
    return data + offset(indices..., 0);
  }

  LACUNA_HD constexpr index_t size() const {
    index_t count = 1;
    for (index_t const n : extent) count *= n;
    return count;
  }

  LACUNA_HD constexpr explicit operator bool() const { return data != nullptr; }

 private:
  template <class... Indices>
  LACUNA_HD constexpr index_t offset(Indices... indices) const {
    index_t const at[Rank] = {static_cast<index_t>(indices)...};
    index_t sum = 0;
    for (int r = 0; r < Rank; ++r) sum += at[r] * stride[r];
    return sum;
  }
};

}  // namespace lacuna
