#pragma once
#include <cstdint>

namespace lacuna::sm80 {

/// Tells the last of several blocks that it is the last. A word of the workspace that needs no preparation: one without the tag counts as
/// 0, and the last block to arrive leaves it at 0, so a launch can be repeated and recorded in a graph.
class arrival {
 public:
  __device__ explicit arrival(unsigned long long* word) : word_{word} {}

  /// One thread of every block that will arrive calls it first.
  __device__ void prepare() const {
    unsigned long long const seen = *static_cast<unsigned long long volatile*>(word_);
    if ((seen & ~count_mask) != tag) atomicCAS(word_, seen, tag);  // where it fails another block was faster
  }

  /// One thread of each of `blocks` blocks calls it after the block has written its part; true for the last one, whose block may then read
  /// all parts after a barrier.
  __device__ bool last_of(unsigned blocks) const {
    __threadfence();
    bool const last = (atomicAdd(word_, 1ull) & count_mask) + 1 == blocks;
    if (last) *static_cast<unsigned long long volatile*>(word_) = tag;
    __threadfence();
    return last;
  }

 private:
  static constexpr unsigned long long count_mask = 0xffff, tag = 0xfff7'd3c0'de5a'0000;  // as a double a NaN that nothing computes

  unsigned long long* word_;
};

}  // namespace lacuna::sm80
