//===- Gemm.cu - A block 64 x 64 results, a thread 4 x 4 of them ------------------------------===//
#include "runtime/backends/cuda/kernels/matrix/GemmEpilogue.h"
#include "runtime/backends/cuda/kernels/matrix/GemmTile.h"

namespace omnibal::rt::cuda {
namespace {

using namespace tile;

template <typename T, typename To>
__global__ void __launch_bounds__(threads, 2)
    gemm(GemmShape s, int64_t batches, const T *a, const T *b, To *c, const T *bias,
         const To *residual, To *pre, const To *at) {
  alignas(16) __shared__ float left[depth][line];
  alignas(16) __shared__ float right[depth][line];
  const int down = threadIdx.x / 16 * 4, across = threadIdx.x % 16 * 4;
  const int64_t rowTiles = (s.m + side - 1) / side, colTiles = (s.n + side - 1) / side;
  for (int64_t tile = blockIdx.x; tile < batches * rowTiles * colTiles; tile += gridDim.x) {
    const int64_t batch = tile / (rowTiles * colTiles);
    const int64_t row = tile / colTiles % rowTiles * side, col = tile % colTiles * side;
    const T *x = a + offsetOf(s, s.a, batch), *y = b + offsetOf(s, s.b, batch);
    float sums[4][4] = {};
    for (int64_t first = 0; first < s.k; first += depth) {
      __syncthreads(); // what was there before is read
      load(left, x, s.a.strides, row, s.m, first, s.k);
      load(right, y, RowStrides{s.b.strides.col, s.b.strides.row}, col, s.n, first, s.k);
      __syncthreads();
      multiplyAdd(sums, left, right, down, across);
    }
    To *result = c + offsetOf(s, s.c, batch);
    const To *added = residual ? residual + offsetOf(s, s.residual, batch) : nullptr;
    To *before = pre ? pre + offsetOf(s, s.pre, batch) : nullptr;
    const To *where = at ? at + offsetOf(s, s.at, batch) : nullptr;
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int64_t r = row + down + i, n = col + across + j;
        if (r >= s.m || n >= s.n)
          continue;
        To &place = result[r * s.c.strides.row + n * s.c.strides.col];
        float value = s.alpha * sums[i][j];
        if (s.accumulate)
          value += toFloat(place);
        if (bias)
          value += toFloat(bias[n * s.biasStride]);
        if (before)
          before[r * s.pre.strides.row + n * s.pre.strides.col] = fromFloat<To>(value);
        if (where)
          value *=
              derivative(s.activation, toFloat(where[r * s.at.strides.row + n * s.at.strides.col]));
        else
          value = activate(s.activation, value);
        if (added)
          value += toFloat(added[r * s.residual.strides.row + n * s.residual.strides.col]);
        place = fromFloat<To>(value);
      }
  }
}

template <typename T, typename To>
cudaError_t run(const GemmShape &s, const GemmData &d, cudaStream_t stream) {
  int64_t batches = 1;
  for (int d = 0; d < s.batchRank; ++d)
    batches *= s.batch[d];
  if (batches * s.m * s.n == 0)
    return cudaSuccess;
  OMNIBAL_LAUNCH((gemm<T, To>), dim3(gridFor(batches * ceilDiv(s.m, side) * ceilDiv(s.n, side))),
                 dim3(threads), stream, s, batches, static_cast<const T *>(d.a),
                 static_cast<const T *>(d.b), static_cast<To *>(d.c),
                 static_cast<const T *>(d.bias), static_cast<const To *>(d.residual),
                 static_cast<To *>(d.pre), static_cast<const To *>(d.at));
  return cudaGetLastError();
}

} // namespace

cudaError_t launchGemm(const GemmShape &s, const GemmData &d, cudaStream_t stream) {
  const bool more = d.bias || d.residual || d.pre;
  if (s.batchRank > GemmShape::maxBatchRank || (d.at && more) ||
      (s.accumulate && (more || d.at || s.activation != GemmActivation::None)))
    return cudaErrorInvalidValue;
  if (s.type == Element::F32 && s.resultType == Element::F32)
    return run<float, float>(s, d, stream);
  if (s.type == Element::BF16 && s.resultType == Element::BF16)
    return run<bf16, bf16>(s, d, stream);
  if (s.type == Element::BF16 && s.resultType == Element::F32)
    return run<bf16, float>(s, d, stream);
  return cudaErrorInvalidValue;
}

} // namespace omnibal::rt::cuda
