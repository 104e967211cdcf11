#pragma once
#include <lacuna/core/error.hpp>
#include <lacuna/core/shape.hpp>

namespace lacuna::detail {

/// Refuses offsets in host memory that run backwards, past the `there` tokens of a packed tensor, or that give a sequence more than the
/// plan's capacity. Offsets in device memory cannot be looked at without waiting: there the caller answers for them.
inline status check_offsets(char const* name, std::int32_t const* offsets, index_t batch, index_t most, index_t there) {
  if (!offsets) return {};
  for (index_t b = 0; b < batch; ++b) {
    index_t const begin = offsets[b], end = offsets[b + 1];
    if (begin < 0 || end < begin)
      return refuse(name, " has ", begin, " and ", end, " around sequence ", b, "; expected ascending numbers of at least 0");
    if (end - begin > most) return refuse(name, " gives sequence ", b, " ", end - begin, " tokens; the plan has at most ", most);
    if (end > there) return refuse(name, " ends sequence ", b, " at ", end, "; the packed tensor has ", there, " tokens");
  }
  return {};
}

}  // namespace lacuna::detail
