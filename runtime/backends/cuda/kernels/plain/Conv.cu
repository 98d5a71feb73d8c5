//===- Conv.cu - Convolution of any number of dimensions, with its gradients ------------------===//
//
// Sums in double in one order. A thread owns an element of the output or of the input's gradient; a
// block owns an element of the weight's, which is a sum over all images and positions.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/cuda/kernels/plain/PlainDevice.h"

namespace omnibal::rt::cuda {
namespace {

__host__ __device__ inline int64_t spatialSize(const PlainView &v) {
  int64_t n = 1;
  for (int d = 2; d < v.rank; ++d)
    n *= v.shape[d];
  return n;
}

/// Offset of a spatial position (its first dimension is the view's third).
__device__ inline int64_t spatialOffset(const PlainView &v, const int64_t *at) {
  int64_t offset = 0;
  for (int d = 2; d < v.rank; ++d)
    offset += at[d - 2] * v.strides[d];
  return offset;
}

/// Offset of the input that output position `at` reads through kernel position `k`; false if it
/// lies in the padding.
__device__ bool reads(const PlainConv &c, const PlainView &x, const int64_t *at, const int64_t *k,
                      int64_t &offset) {
  for (int d = 0; d < x.rank - 2; ++d) {
    const int64_t i = at[d] * c.strides[d] + k[d] * c.dilations[d] - c.pads[d];
    if (i < 0 || i >= x.shape[d + 2])
      return false;
    offset += i * x.strides[d + 2];
  }
  return true;
}

/// Offset of the output that reads input position `at` through kernel position `k`.
__device__ bool writes(const PlainConv &c, const PlainView &y, const int64_t *at, const int64_t *k,
                       int64_t &offset) {
  for (int d = 0; d < y.rank - 2; ++d) {
    const int64_t i = at[d] + c.pads[d] - k[d] * c.dilations[d];
    if (i < 0 || i % c.strides[d] != 0 || i / c.strides[d] >= y.shape[d + 2])
      return false;
    offset += i / c.strides[d] * y.strides[d + 2];
  }
  return true;
}

__global__ void __launch_bounds__(plainThreads)
    conv(int64_t count, int64_t places, PlainConv c, PlainView x, PlainView w, PlainView bias,
         PlainView y) {
  const int64_t perGroup = w.shape[0] / c.group;
  OMNIBAL_FOR_ELEMENTS(i, count) {
    const Position at(y.shape, y.rank, i);
    const int64_t channel = at.at[1], first = channel / perGroup * w.shape[1];
    double sum = bias.data ? loadReal(bias, channel * bias.strides[0]) : 0;
    for (int64_t j = 0; j < places; ++j) {
      const Position k(w.shape + 2, w.rank - 2, j);
      int64_t place = at.at[0] * x.strides[0] + first * x.strides[1];
      if (!reads(c, x, at.at + 2, k.at, place))
        continue;
      const int64_t factor = channel * w.strides[0] + spatialOffset(w, k.at);
      for (int64_t f = 0; f < w.shape[1]; ++f)
        sum += loadReal(x, place + f * x.strides[1]) * loadReal(w, factor + f * w.strides[1]);
    }
    storeReal(y, at.offset(y), sum);
  }
}

__global__ void __launch_bounds__(plainThreads)
    convInputGrad(int64_t count, int64_t places, PlainConv c, PlainView x, PlainView w,
                  PlainView y) {
  const int64_t perGroup = w.shape[0] / c.group;
  OMNIBAL_FOR_ELEMENTS(i, count) {
    const Position at(x.shape, x.rank, i);
    const int64_t part = at.at[1] / w.shape[1], f = at.at[1] % w.shape[1];
    double sum = 0;
    for (int64_t j = 0; j < places; ++j) {
      const Position k(w.shape + 2, w.rank - 2, j);
      int64_t place = at.at[0] * y.strides[0] + part * perGroup * y.strides[1];
      if (!writes(c, y, at.at + 2, k.at, place))
        continue;
      const int64_t factor =
          part * perGroup * w.strides[0] + f * w.strides[1] + spatialOffset(w, k.at);
      for (int64_t o = 0; o < perGroup; ++o)
        sum += loadReal(y, place + o * y.strides[1]) * loadReal(w, factor + o * w.strides[0]);
    }
    storeReal(x, at.offset(x), sum);
  }
}

__global__ void __launch_bounds__(plainThreads)
    convWeightGrad(int64_t count, int64_t places, PlainConv c, PlainView x, PlainView w,
                   PlainView y) {
  const int64_t perGroup = w.shape[0] / c.group;
  for (int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    const Position k(w.shape, w.rank, i);
    const int64_t o = k.at[0], channel = o / perGroup * w.shape[1] + k.at[1];
    double sum = 0;
    for (int64_t j = threadIdx.x; j < places * y.shape[0]; j += plainThreads) {
      const int64_t image = j / places;
      const Position at(y.shape + 2, y.rank - 2, j % places);
      int64_t place = image * x.strides[0] + channel * x.strides[1];
      if (reads(c, x, at.at, k.at + 2, place))
        sum += loadReal(x, place) *
               loadReal(y, image * y.strides[0] + o * y.strides[1] + spatialOffset(y, at.at));
    }
    sum = blockSum<plainThreads>(sum);
    if (threadIdx.x == 0)
      storeReal(w, k.offset(w), sum);
  }
}

} // namespace

cudaError_t launchConv(const PlainConv &c, const PlainView &x, const PlainView &w,
                       const PlainView &bias, const PlainView &y, cudaStream_t stream) {
  const int64_t count = y.elements();
  if (count == 0)
    return cudaSuccess;
  OMNIBAL_LAUNCH(conv, plainGrid(count), dim3(plainThreads), stream, count, spatialSize(w), c, x, w,
                 bias, y);
  return cudaGetLastError();
}

cudaError_t launchConvInputGrad(const PlainConv &c, const PlainView &x, const PlainView &w,
                                const PlainView &y, cudaStream_t stream) {
  const int64_t count = x.elements();
  if (count == 0)
    return cudaSuccess;
  OMNIBAL_LAUNCH(convInputGrad, plainGrid(count), dim3(plainThreads), stream, count, spatialSize(w),
                 c, x, w, y);
  return cudaGetLastError();
}

cudaError_t launchConvWeightGrad(const PlainConv &c, const PlainView &x, const PlainView &w,
                                 const PlainView &y, cudaStream_t stream) {
  const int64_t count = w.elements();
  if (count == 0)
    return cudaSuccess;
  OMNIBAL_LAUNCH(convWeightGrad, dim3(gridFor(count)), dim3(plainThreads), stream, count,
                 spatialSize(y), c, x, w, y);
  return cudaGetLastError();
}

} // namespace omnibal::rt::cuda
