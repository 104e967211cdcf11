#pragma once
#include <lacuna/core/error.hpp>
#include <lacuna/core/tensor_view.hpp>

#include <cstdint>
#include <string>

namespace lacuna::detail {

template <class T, int Rank>
std::string extents_of(tensor_view<T, Rank> const& v) {
  std::string text = "[";
  for (int r = 0; r < Rank; ++r) text += (r ? ", " : "") + std::to_string(v.extent[r]);
  return text + "]";
}

/// [first, past) addresses that a view may touch.
struct address_range {
  std::uintptr_t first = 0, past = 0;
  bool overlaps(address_range const& other) const { return first < other.past && other.first < past; }
};

/// Most elements between a view's first and last: whatever is more is a mistake, and sums of such offsets overflow.
inline constexpr double most_span = 0x1p58;

/// Refuses extents and strides that are negative or so large that no memory holds what they span.
template <class T, int Rank>
status check_span(char const* name, tensor_view<T, Rank> const& v) {
  double elements = 1, last = 0;
  for (int r = 0; r < Rank; ++r) {
    if (v.extent[r] < 0) return refuse(name, " is ", extents_of(v), "; expected extents of at least 0");
    if (v.stride[r] < 0) return refuse(name, " has stride ", v.stride[r], " in dimension ", r, "; expected at least 0");
    elements *= static_cast<double>(v.extent[r]);
    if (v.extent[r] > 0) last += static_cast<double>(v.extent[r] - 1) * static_cast<double>(v.stride[r]);
  }
  if (elements > 0 && max(elements, last) > most_span)
    return refuse(name, " is ", extents_of(v), " and spans more than 2^58 elements; expected a tensor that memory can hold");
  return {};
}

/// The same for a view that is written: rows must not share memory.
template <class T, int Rank>
status check_written(char const* name, tensor_view<T, Rank> const& v) {
  if (v.size() == 0) return {};
  for (int r = 0; r < Rank; ++r)
    if (v.stride[r] == 0 && v.extent[r] > 1)
      return refuse(name, " has stride 0 in dimension ", r, " of ", v.extent[r], "; expected memory for each");
  return {};
}

template <class T, int Rank>
address_range addresses(tensor_view<T, Rank> const& v) {
  if (v.size() == 0) return {};
  index_t last = 0;
  for (int r = 0; r < Rank; ++r) last += (v.extent[r] - 1) * v.stride[r];
  auto const first = reinterpret_cast<std::uintptr_t>(v.data);
  return {first, first + static_cast<std::uintptr_t>(last + 1) * sizeof(T)};
}

template <class A, class B, int RankA, int RankB>
bool overlap(tensor_view<A, RankA> const& a, tensor_view<B, RankB> const& b) {
  return addresses(a).overlaps(addresses(b));
}

template <class A, class B, int Rank>
bool same_view(tensor_view<A, Rank> const& a, tensor_view<B, Rank> const& b) {
  bool same = a.data == b.data;
  for (int r = 0; r < Rank; ++r) same = same && a.extent[r] == b.extent[r] && a.stride[r] == b.stride[r];
  return same;
}

/// Refuses a [batch, token, head, dim] view that is null, has a wrong extent or an innermost stride other than 1. `tokens` is the most
/// there may be, or -1 for any number; packed views have batch 1.
template <class T>
status check_rows(char const* name, tensor_view<T, 4> const& v, index_t batch, index_t tokens, int heads, int dim) {
  bool const fits =
      v.extent[0] == batch && v.extent[1] >= 0 && (tokens < 0 || v.extent[1] <= tokens) && v.extent[2] == heads && v.extent[3] == dim;
  if (!fits)
    return refuse(name, " is ", extents_of(v), "; expected [", batch, ", ", tokens < 0 ? "any" : concat("at most ", tokens), ", ", heads,
                  ", ", dim, "]");
  if (v.stride[3] != 1) return refuse(name, " has innermost stride ", v.stride[3], "; expected 1");
  if (status s = check_span(name, v); !s) return s;
  if (v.size() > 0 && !v.data) return refuse(name, " is null; expected ", v.size(), " elements");
  return {};
}

}  // namespace lacuna::detail
