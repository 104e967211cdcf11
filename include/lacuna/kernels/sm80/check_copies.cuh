#pragma once
#include <lacuna/core/error.hpp>
#include <lacuna/core/tensor_view.hpp>

#include <cstdint>

namespace lacuna::sm80 {

/// Refuses rows that 16-byte copies cannot address.
template <class T>
status check_copies(char const* name, tensor_view<T, 4> const& v) {
  if (reinterpret_cast<std::uintptr_t>(v.data) % 16) return refuse(name, " starts off a 16-byte boundary");
  for (int r = 0; r < 3; ++r)
    if (v.extent[r] > 1 && v.stride[r] * sizeof(T) % 16)
      return refuse(name, " has stride ", v.stride[r], "; expected a multiple of 8 elements");
  return {};
}

/// The same for the rows that a reader finds.
template <class Kv>
status check_copies(Kv const& kv) {
  if constexpr (requires { kv.keys.stride; }) {
    if (status s = check_copies("k", kv.keys); !s) return s;
    return check_copies("v", kv.values);
  } else {
    constexpr int bytes = sizeof(typename Kv::element);
    if (kv.key_stride() * bytes % 16) return refuse("k has stride ", kv.key_stride(), "; expected a multiple of 8 elements");
    if (kv.value_stride() * bytes % 16) return refuse("v has stride ", kv.value_stride(), "; expected a multiple of 8 elements");
    return {};
  }
}

}  // namespace lacuna::sm80
