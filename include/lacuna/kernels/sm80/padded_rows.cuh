#pragma once
#include <lacuna/arch/sm80/copy_async.cuh>
#include <lacuna/arch/sm80/mma.cuh>

namespace lacuna::sm80 {

/// Rows of Dim 16-bit elements in shared memory. 16 bytes lie between rows, so that 8 rows of a matrix begin in different banks, whatever the
/// dim. A warp reads tensor-core operands from it; every address is the lane's own plus a constant.
template <class T, int Rows, int Dim>
struct alignas(16) padded_rows {
  static_assert(sizeof(T) == 2 && Dim % 16 == 0);
  static constexpr int stride = Dim + 8;
  T memory[Rows * stride];

  /// Begins to copy all rows, `Threads` threads together; `row(r)` gives where row r lies, null for zeros. A thread keeps to one 16-byte
  /// piece of every row it copies, so that its addresses differ by constants.
  template <int Threads, class RowOf>
  __device__ void copy(RowOf const& row) {
    constexpr unsigned pieces = Dim / 8, rows_at_once = Threads / pieces;
    unsigned const first = threadIdx.x / pieces, piece = threadIdx.x % pieces;
    if (Threads % pieces && first == rows_at_once) return;
#pragma unroll
    for (unsigned r = 0; r < Rows; r += rows_at_once) {
      if (Rows % rows_at_once && r + first >= Rows) return;
      T const* const from = row(static_cast<int>(r + first));
      copy_async(memory + first * stride + piece * 8 + r * stride, from + piece * 8, from != nullptr);
    }
  }

  /// Left operand: rows `row` to `row` + 15, 16 columns from `column` on.
  __device__ void left(std::uint32_t (&a)[4], int row, int column) const {
    load_matrices(a, memory + (row + lane() % 16) * stride + column + lane() / 16 * 8);
  }

  /// Right operands of two products whose columns are rows `row` .. + 7 (b[0], b[1]) and `row` + 8 .. + 15 (b[2], b[3]).
  __device__ void right(std::uint32_t (&b)[4], int row, int column) const {
    load_matrices(b, memory + (row + lane() / 16 * 8 + lane() % 8) * stride + column + lane() / 8 % 2 * 8);
  }

  /// Right operands of two products that sum over rows `row` .. + 15: columns `column` .. + 7 (b[0], b[1]) and + 8 .. + 15 (b[2], b[3]).
  __device__ void right_transposed(std::uint32_t (&b)[4], int row, int column) const {
    load_transposed(b, memory + (row + lane() % 16) * stride + column + lane() / 16 * 8);
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x % 32); }
};

}  // namespace lacuna::sm80
