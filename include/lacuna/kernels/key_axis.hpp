#pragma once
#include <lacuna/core/math.hpp>

namespace lacuna {

/// The key axis cut at every multiple of the granularity and, in between, at the odd ends of prefixes and shared spans. Boundaries are
/// numbered from 0 on; an axis without cuts has boundary p / granularity at position p.
class key_axis {
 public:
  /// cuts: ascending; equal ones are allowed, the first of them counts.
  LACUNA_HD explicit key_axis(int granularity, std::int32_t const* cuts = nullptr, int count = 0)
      : granularity_{granularity}, cuts_{cuts}, count_{count} {
    while ((granularity & 1) == 0) granularity >>= 1, ++shift_;
    odd_ = granularity;
  }

  /// Number of the boundary at position p, a multiple of the granularity or a cut.
  LACUNA_HD std::int32_t boundary(std::int32_t p) const {
    return ceil_blocks(p) + first(count_, [&](int c) { return cuts_[c] >= p; });
  }

  /// Position of boundary i.
  LACUNA_HD std::int32_t position(std::int32_t i) const {
    int const c = first(count_, [&](int k) { return number_of(k) >= i; });
    return c < count_ && number_of(c) == i ? cuts_[c] : (i - c) * granularity_;
  }

 private:
  LACUNA_HD std::int32_t number_of(int cut) const { return ceil_blocks(cuts_[cut]) + cut; }

  /// ceil(p / granularity), without a division where the granularity is a power of two.
  LACUNA_HD std::int32_t ceil_blocks(std::int32_t p) const {
    std::int32_t const n = (p + granularity_ - 1) >> shift_;
    return odd_ == 1 ? n : n / odd_;
  }

  /// First of [0, n) for which `late` holds; n if none. `late` is false, then true.
  template <class Late>
  LACUNA_HD static int first(int n, Late const& late) {
    int low = 0;
    while (low < n) {
      int const middle = (low + n) / 2;
      if (late(middle))
        n = middle;
      else
        low = middle + 1;
    }
    return low;
  }

  int granularity_;
  std::int32_t const* cuts_;
  int count_;
  int shift_ = 0, odd_ = 1;  // granularity = odd << shift
};

}  // namespace lacuna
