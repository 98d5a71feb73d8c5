//===- Grouped.cu - A block 64 x 64 results, a thread 4 x 4 of them ----------------------------===//
//
// These kernels serve float32 and what the tensor cores decline (GroupedMma.cu).
//
// Forward, a block has 64 neighbors in the order of groups and goes through the groups that they
// are of; what a group's matrix gives is kept of its own rows. So no block needs to know how many
// rows came before it, and the grid is the same whatever the groups' sizes are.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/cuda/kernels/matrix/GemmTile.h"
#include "runtime/backends/cuda/kernels/matrix/GroupedDevice.h"
#include "runtime/backends/cuda/kernels/Order.h"

namespace omnibal::rt::cuda {
namespace {

using namespace tile;

/// Borders from the sorted rows: each place writes those between its row's group and the one
/// before.
template <typename Key>
__global__ void __launch_bounds__(threads)
    findBorders(int64_t count, int64_t groups, const Key *keys, const int32_t *places,
                int32_t *order, int32_t *borders) {
  for (int64_t i = int64_t(blockIdx.x) * threads + threadIdx.x; i <= count;
       i += int64_t(gridDim.x) * threads) {
    const int64_t before = i > 0 ? static_cast<int64_t>(keys[places[i - 1]]) : -1;
    const int64_t mine = i < count ? static_cast<int64_t>(keys[places[i]]) : groups;
    for (int64_t g = before < -1 ? 0 : before + 1; g <= mine && g <= groups; ++g)
      borders[g] = static_cast<int32_t>(i);
    if (i < count)
      order[i] = places[i];
  }
}

template <typename T, typename To>
__global__ void __launch_bounds__(threads, 2)
    groupedGemm(GroupedShape s, const int32_t *order, const int32_t *borders, const T *a,
                const T *b, To *c) {
  alignas(16) __shared__ float left[depth][line];
  alignas(16) __shared__ float right[depth][line];
  const int down = threadIdx.x / 16 * 4, across = threadIdx.x % 16 * 4;
  const int64_t colTiles = (s.cols + side - 1) / side, rowTiles = (s.rows + side - 1) / side;
  for (int64_t tile = blockIdx.x; tile < rowTiles * colTiles; tile += gridDim.x) {
    const int64_t first = tile / colTiles * side, col = tile % colTiles * side;
    const int64_t end = first + side < s.rows ? first + side : s.rows;
    forGroups(borders, s.groups, first, end, [&](int64_t g, int64_t begin, int64_t last) {
      const T *matrix = b + g * s.b.group;
      float sums[4][4] = {};
      for (int64_t from = 0; from < s.depth; from += depth) {
        __syncthreads(); // what was there before is read
#pragma unroll
        for (int j = 0; j < side * depth / threads; ++j) {
          const int place = threadIdx.x + j * threads;
          const int k = place % depth, i = place / depth;
          const bool inside = first + i >= begin && first + i < last && from + k < s.depth;
          left[k][i] =
              inside ? toFloat(a[offsetOf(s.a, order[first + i]) + (from + k) * s.a.col]) : 0.f;
        }
        load(right, matrix, RowStrides{s.b.col, s.b.row}, col, s.cols, from, s.depth);
        __syncthreads();
        multiplyAdd(sums, left, right, down, across);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int64_t place = first + down + i;
        if (place < begin || place >= last)
          continue;
        To *to = c + offsetOf(s.c, order[place]);
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (col + across + j < s.cols)
            to[(col + across + j) * s.c.col] = fromFloat<To>(sums[i][j]);
      }
    });
  }
}

/// to[k][i] = column `col` + i of the row at place first + k; zeros beyond the ends.
template <typename T>
__device__ __forceinline__ void loadRows(float (&to)[depth][line], const T *from,
                                         const RepeatedRows &s, const int32_t *order,
                                         int64_t first, int64_t last, int64_t col, int64_t cols) {
#pragma unroll
  for (int j = 0; j < side * depth / threads; ++j) {
    const int place = threadIdx.x + j * threads;
    const int k = place / side, i = place % side;
    const bool inside = first + k < last && col + i < cols;
    to[k][i] = inside ? toFloat(from[offsetOf(s, order[first + k]) + (col + i) * s.col]) : 0.f;
  }
}

template <typename T, typename To>
__global__ void __launch_bounds__(threads, 2)
    groupedGemmBackward(GroupedGradShape s, const int32_t *order, const int32_t *borders,
                        const T *a, const T *b, To *c) {
  alignas(16) __shared__ float left[depth][line];
  alignas(16) __shared__ float right[depth][line];
  const int down = threadIdx.x / 16 * 4, across = threadIdx.x % 16 * 4;
  const int64_t colTiles = (s.cols + side - 1) / side, rowTiles = (s.rows + side - 1) / side;
  for (int64_t tile = blockIdx.x; tile < s.groups * rowTiles * colTiles; tile += gridDim.x) {
    const int64_t g = tile / (rowTiles * colTiles);
    const int64_t row = tile / colTiles % rowTiles * side, col = tile % colTiles * side;
    const int64_t last = borders[g + 1];
    float sums[4][4] = {};
    for (int64_t first = borders[g]; first < last; first += depth) {
      __syncthreads(); // what was there before is read
      loadRows(left, a, s.a, order, first, last, row, s.rows);
      loadRows(right, b, s.b, order, first, last, col, s.cols);
      __syncthreads();
      multiplyAdd(sums, left, right, down, across);
    }
    if (borders[g] == last)
      continue; // nothing to add
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int64_t r = row + down + i, n = col + across + j;
        if (r >= s.rows || n >= s.cols)
          continue;
        To &place = c[g * s.c.group + r * s.c.row + n * s.c.col];
        place = fromFloat<To>(toFloat(place) + sums[i][j]);
      }
  }
}

template <typename T, typename To>
cudaError_t run(const GroupedShape &s, const int32_t *order, const int32_t *borders, const void *a,
                const void *b, void *c, cudaStream_t stream) {
  OMNIBAL_LAUNCH((groupedGemm<T, To>), dim3(gridFor(ceilDiv(s.rows, side) * ceilDiv(s.cols, side))),
                 dim3(threads), stream, s, order, borders, static_cast<const T *>(a),
                 static_cast<const T *>(b), static_cast<To *>(c));
  return cudaGetLastError();
}

template <typename T, typename To>
cudaError_t run(const GroupedGradShape &s, const int32_t *order, const int32_t *borders,
                const void *a, const void *b, void *c, cudaStream_t stream) {
  OMNIBAL_LAUNCH((groupedGemmBackward<T, To>),
                 dim3(gridFor(s.groups * ceilDiv(s.rows, side) * ceilDiv(s.cols, side))),
                 dim3(threads), stream, s, order, borders, static_cast<const T *>(a),
                 static_cast<const T *>(b), static_cast<To *>(c));
  return cudaGetLastError();
}

template <typename Shape>
cudaError_t choose(const Shape &s, const int32_t *order, const int32_t *borders, const void *a,
                   const void *b, void *c, cudaStream_t stream) {
  if (s.type == Element::F32 && s.resultType == Element::F32)
    return run<float, float>(s, order, borders, a, b, c, stream);
  if (s.type == Element::BF16 && s.resultType == Element::BF16)
    return run<bf16, bf16>(s, order, borders, a, b, c, stream);
  if (s.type == Element::BF16 && s.resultType == Element::F32)
    return run<bf16, float>(s, order, borders, a, b, c, stream);
  return cudaErrorInvalidValue;
}

template <typename Key>
cudaError_t group(int64_t count, int64_t groups, const Key *keys, int32_t *places, int32_t *order,
                  int32_t *borders, cudaStream_t stream) {
  if (const cudaError_t error = launchOrder(count, keys, places, stream); error != cudaSuccess)
    return error;
  OMNIBAL_LAUNCH(findBorders<Key>, dim3(gridFor(ceilDiv(count + 1, threads))), dim3(threads),
                 stream, count, groups, keys, places, order, borders);
  return cudaGetLastError();
}

} // namespace

cudaError_t launchGroupRows(int64_t count, int64_t groups, const void *keys, bool wide,
                            int32_t *places, int32_t *order, int32_t *borders,
                            cudaStream_t stream) {
  return wide ? group(count, groups, static_cast<const int64_t *>(keys), places, order, borders,
                      stream)
              : group(count, groups, static_cast<const int32_t *>(keys), places, order, borders,
                      stream);
}

cudaError_t launchGroupedGemm(const GroupedShape &s, const int32_t *order, const int32_t *borders,
                              const void *a, const void *b, void *c, cudaStream_t stream) {
  if (s.rows == 0 || s.cols == 0)
    return cudaSuccess;
  if (launchGroupedGemmMma(s, order, borders, a, b, c, stream))
    return cudaGetLastError();
  return choose(s, order, borders, a, b, c, stream);
}

cudaError_t launchGroupedGemmBackward(const GroupedGradShape &s, const int32_t *order,
                                      const int32_t *borders, const void *a, const void *b,
                                      void *c, cudaStream_t stream) {
  if (s.groups * s.rows * s.cols == 0)
    return cudaSuccess;
  if (launchGroupedGemmBackwardMma(s, order, borders, a, b, c, stream))
    return cudaGetLastError();
  return choose(s, order, borders, a, b, c, stream);
}

} // namespace omnibal::rt::cuda
