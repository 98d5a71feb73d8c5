//===- GemmTile.h - Products of tiles by a block on the ordinary cores ------------------------===//
//
// A block has 64 x 64 results, a thread 4 x 4 of them; parts of 16 of the depth lie in shared
// memory.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_MATRIX_GEMMTILE_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_MATRIX_GEMMTILE_H

#include "runtime/backends/cuda/kernels/Device.h"
#include "runtime/backends/cuda/kernels/Strides.h"

namespace omnibal::rt::cuda::tile {

constexpr int threads = 256;
constexpr int side = 64;
constexpr int line = side + 4;
constexpr int depth = 16;

/// to[k][i] = element (row + i, first + k) of a matrix whose rows are `s.row` apart; zeros beyond
/// the ends. Neighboring threads read along the dimension that is dense.
template <typename T>
__device__ __forceinline__ void load(float (&to)[depth][line], const T *from, RowStrides s,
                                     int64_t row, int64_t rows, int64_t first, int64_t size) {
#pragma unroll
  for (int j = 0; j < side * depth / threads; ++j) {
    const int place = threadIdx.x + j * threads;
    const int k = s.col == 1 ? place % depth : place / side;
    const int i = s.col == 1 ? place / depth : place % side;
    const bool inside = row + i < rows && first + k < size;
    to[k][i] = inside ? toFloat(from[(row + i) * s.row + (first + k) * s.col]) : 0.f;
  }
}

/// sums[i][j] += left[k][down + i] right[k][across + j] for all k.
__device__ __forceinline__ void multiplyAdd(float (&sums)[4][4], const float (&left)[depth][line],
                                            const float (&right)[depth][line], int down,
                                            int across) {
#pragma unroll
  for (int k = 0; k < depth; ++k) {
    const auto p = loadPack<4>(&left[k][down]), q = loadPack<4>(&right[k][across]);
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        sums[i][j] = fmaf(p.at[i], q.at[j], sums[i][j]);
  }
}

} // namespace omnibal::rt::cuda::tile
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_MATRIX_GEMMTILE_H
