#include "runtime/backends/cuda/libraries/GemmSums.h"
#include "runtime/backends/cuda/kernels/ColumnSum.h"
#include "runtime/backends/cuda/kernels/Reduce.h"

namespace omnibal::rt::cuda {
namespace {

/// to[j] += the sum over i < rows of from[i, j].
cudaError_t add(float *to, const void *from, Element type, int64_t rows, int64_t cols,
                RowStrides strides, float *partials, cudaStream_t stream) {
  ColumnSumShape sum;
  sum.rows = rows;
  sum.cols = cols;
  sum.fromRow = strides.row;
  sum.from = type;
  sum.accumulate = true;
  if (partials && strides.col == 1 && columnSumServes(sum))
    return launchColumnSum(sum, to, from, partials, stream);
  ReduceShape reduce;
  reduce.strides.append(rows, 0, strides.row);
  reduce.strides.append(cols, 1, strides.col);
  reduce.from = type;
  reduce.accumulate = true;
  return launchReduce(reduce, to, from, stream);
}

} // namespace

cudaError_t launchGemmSums(const GemmShape &s, const GemmData &d, cudaStream_t stream) {
  if ((d.sumA || d.sumB) && s.batchRank != 0)
    return cudaErrorInvalidValue;
  if (d.sumA && s.m > 0)
    if (cudaError_t error = add(d.sumA, d.a, s.type, s.k, s.m, {s.a.strides.col, s.a.strides.row},
                                d.partials, stream))
      return error;
  return d.sumB && s.n > 0 ? add(d.sumB, d.b, s.type, s.k, s.n, s.b.strides, d.partials, stream)
                           : cudaSuccess;
}

} // namespace omnibal::rt::cuda
