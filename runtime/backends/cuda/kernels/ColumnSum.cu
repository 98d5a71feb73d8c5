//===- ColumnSum.cu - Parts of the rows by many blocks, then the parts ------------------------===//
#include "runtime/backends/cuda/kernels/ColumnSum.h"
#include "runtime/backends/cuda/kernels/Device.h"

namespace omnibal::rt::cuda {
namespace {

constexpr int across = 32, down = 8, ahead = 4, manyDown = 16;
constexpr int64_t blocksWanted = 528; // four a multiprocessor of the largest device

/// A block sums a strip of columns, 32 packs wide, over its part of the rows.
template <int n, typename From>
__global__ void __launch_bounds__(across *down)
    sumParts(ColumnSumShape s, int64_t rowsEach, const From *from, float *parts) {
  __shared__ float sums[down][across * n];
  const int64_t strip = int64_t(blockIdx.x) * across * n, col = strip + threadIdx.x * n;
  const int64_t begin = blockIdx.y * rowsEach;
  const int64_t end = begin + rowsEach < s.rows ? begin + rowsEach : s.rows;
  float sum[n];
#pragma unroll
  for (int e = 0; e < n; ++e)
    sum[e] = 0;
  if (col < s.cols) {
    int64_t r = begin + threadIdx.y;
    for (; r + (ahead - 1) * down < end; r += ahead * down) {
      Pack<From, n> packs[ahead];
#pragma unroll
      for (int j = 0; j < ahead; ++j)
        packs[j] = loadPack<n>(from + (r + j * down) * s.fromRow + col);
#pragma unroll
      for (int j = 0; j < ahead; ++j)
#pragma unroll
        for (int e = 0; e < n; ++e)
          sum[e] += toFloat(packs[j].at[e]);
    }
    for (; r < end; r += down) {
      const auto pack = loadPack<n>(from + r * s.fromRow + col);
#pragma unroll
      for (int e = 0; e < n; ++e)
        sum[e] += toFloat(pack.at[e]);
    }
  }
#pragma unroll
  for (int e = 0; e < n; ++e)
    sums[threadIdx.y][threadIdx.x * n + e] = sum[e];
  __syncthreads();
  for (int i = threadIdx.y * across + threadIdx.x; i < across * n; i += across * down) {
    float total = 0;
#pragma unroll
    for (int j = 0; j < down; ++j)
      total += sums[j][i];
    if (strip + i < s.cols)
      parts[blockIdx.y * s.cols + strip + i] = total;
  }
}

/// The parts of a column that a block's threads have, in order, into or onto its place.
template <int parts>
__device__ __forceinline__ void finishColumn(float (&sums)[parts][across], float mine,
                                             const ColumnSumShape &s, int64_t col, float *to) {
  sums[threadIdx.y][threadIdx.x] = mine;
  __syncthreads();
  if (threadIdx.y != 0 || col >= s.cols)
    return;
  float total = 0;
#pragma unroll
  for (int j = 0; j < parts; ++j)
    total += sums[j][threadIdx.x];
  float &place = to[col * s.toStep];
  place = s.accumulate ? place + total : total;
}

/// A block 32 columns of one of the sums.
__global__ void __launch_bounds__(across *manyDown) sumFewRows(ColumnSums all) {
  __shared__ float sums[manyDown][across];
  const ColumnSums::Part &part = all.parts[blockIdx.y];
  const ColumnSumShape &s = part.shape;
  const int64_t first = int64_t(blockIdx.x) * across, col = first + threadIdx.x;
  if (first >= s.cols)
    return;
  float sum = 0;
  if (col < s.cols) {
#pragma unroll 8
    for (int64_t r = threadIdx.y; r < s.rows; r += manyDown)
      sum += part.from[r * s.fromRow + col];
  }
  finishColumn(sums, sum, s, col, part.to);
}

/// A block 32 columns.
__global__ void __launch_bounds__(across *down)
    sumOfParts(ColumnSumShape s, int64_t count, const float *parts, float *to) {
  __shared__ float sums[down][across];
  const int64_t col = int64_t(blockIdx.x) * across + threadIdx.x;
  float sum = 0;
  if (col < s.cols) {
#pragma unroll 8
    for (int64_t p = threadIdx.y; p < count; p += down)
      sum += parts[p * s.cols + col];
  }
  finishColumn(sums, sum, s, col, to);
}

template <int n, typename From>
cudaError_t run(const ColumnSumShape &s, float *to, const void *from, float *scratch,
                cudaStream_t stream) {
  const int64_t strips = ceilDiv(s.cols, across * n);
  int64_t parts = ceilDiv(blocksWanted, strips);
  for (int64_t most : {columnSumScratch / s.cols, ceilDiv(s.rows, down * ahead), int64_t(65535)})
    parts = parts < most ? parts : most;
  const int64_t rowsEach = ceilDiv(s.rows, parts);
  parts = ceilDiv(s.rows, rowsEach);
  OMNIBAL_LAUNCH((sumParts<n, From>),
                 dim3(static_cast<unsigned>(strips), static_cast<unsigned>(parts)),
                 dim3(across, down), stream, s, rowsEach, static_cast<const From *>(from), scratch);
  OMNIBAL_LAUNCH(sumOfParts, dim3(static_cast<unsigned>(ceilDiv(s.cols, across))),
                 dim3(across, down), stream, s, parts, scratch, to);
  return cudaGetLastError();
}

template <typename From>
cudaError_t choose(const ColumnSumShape &s, float *to, const void *from, float *scratch,
                   cudaStream_t stream) {
  constexpr int n = 16 / sizeof(From);
  return isAligned(from, 16) && s.fromRow % n == 0 && s.cols % n == 0
             ? run<n, From>(s, to, from, scratch, stream)
             : run<1, From>(s, to, from, scratch, stream);
}

} // namespace

cudaError_t launchColumnSum(const ColumnSumShape &s, float *to, const void *from, float *scratch,
                            cudaStream_t stream) {
  if (!columnSumServes(s))
    return cudaErrorInvalidValue;
  if (s.from == Element::F32)
    return choose<float>(s, to, from, scratch, stream);
  if (s.from == Element::BF16)
    return choose<bf16>(s, to, from, scratch, stream);
  return cudaErrorInvalidValue;
}

cudaError_t launchColumnSums(const ColumnSums &sums, cudaStream_t stream) {
  int64_t cols = 0;
  for (int i = 0; i < sums.count; ++i) {
    if (sums.parts[i].shape.from != Element::F32)
      return cudaErrorInvalidValue;
    cols = sums.parts[i].shape.cols > cols ? sums.parts[i].shape.cols : cols;
  }
  if (cols > 0)
    OMNIBAL_LAUNCH(
        sumFewRows,
        dim3(static_cast<unsigned>(ceilDiv(cols, across)), static_cast<unsigned>(sums.count)),
        dim3(across, manyDown), stream, sums);
  return cudaGetLastError();
}

} // namespace omnibal::rt::cuda
