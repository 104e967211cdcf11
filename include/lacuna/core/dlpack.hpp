#pragma once
#include <lacuna/core/element.hpp>
#include <lacuna/core/error.hpp>
#include <lacuna/core/tensor_view.hpp>

#include <cstddef>
#include <type_traits>

namespace lacuna {

/// A DLTensor of dlpack.h, which this header does not include: any struct with its members will do.
template <class T>
concept DlpackTensor = requires(T const& t) {
  t.data;
  t.ndim;
  t.shape[0];
  t.strides;
  t.byte_offset;
  t.dtype.code;
  t.dtype.bits;
  t.dtype.lanes;
};

/// View of a DLPack tensor. Throws invalid_argument unless element type and rank are those asked for.
template <class T, int Rank, DlpackTensor Tensor>
tensor_view<T, Rank> from_dlpack(Tensor const& t) {
  using element = std::remove_const_t<T>;
  constexpr int float_code = 2, bfloat_code = 4;
  int const code = std::is_same_v<element, bfloat16> ? bfloat_code : float_code;
  require(static_cast<int>(t.ndim) == Rank, "DLPack tensor has ", static_cast<int>(t.ndim), " dimensions; expected ", Rank);
  require(static_cast<int>(t.dtype.code) == code && t.dtype.bits == 8 * sizeof(element) && t.dtype.lanes == 1, "DLPack tensor has type code ",
          static_cast<int>(t.dtype.code), " with ", static_cast<int>(t.dtype.bits), " bits and ", static_cast<int>(t.dtype.lanes),
          " lanes; expected ", element_name<element>);
  tensor_view<T, Rank> view;
  view.data = reinterpret_cast<T*>(static_cast<std::byte*>(t.data) + t.byte_offset);
  index_t dense = 1;
  for (int r = Rank - 1; r >= 0; --r) {
    view.extent[r] = t.shape[r];
    view.stride[r] = t.strides ? t.strides[r] : dense;
    dense *= t.shape[r];
  }
  return view;
}

}  // namespace lacuna
