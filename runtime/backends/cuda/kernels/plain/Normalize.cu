//===- Normalize.cu - Softmax, norms and running sums -----------------------------------------===//
//
// A warp a line, in double, for any layout; norms of dense rows of one storage type have a kernel
// of their own, which reads a row once in packs and keeps it in registers, in float32.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/cuda/kernels/plain/PlainDevice.h"
#include <cmath>

namespace omnibal::rt::cuda {
namespace {

constexpr int warps = plainThreads / 32;

__device__ double warpMax(double x) {
#pragma unroll
  for (int bits = 16; bits > 0; bits /= 2) {
    const double other = __shfl_xor_sync(allLanes, x, bits);
    x = other > x || other != other ? other : x; // a NaN stays
  }
  return x;
}

/// Lines that a warp visits; all of its lanes see the same.
#define OMNIBAL_FOR_LINES(line, count)                                                             \
  for (int64_t line = int64_t(blockIdx.x) * warps + threadIdx.x / 32; line < (count);              \
       line += int64_t(gridDim.x) * warps)

__global__ void __launch_bounds__(plainThreads)
    softmax(int64_t lines, PlainView to, PlainView from, int axis, bool logarithm) {
  const int lane = threadIdx.x % 32;
  const PlainView source = withoutAxis(from, axis), target = withoutAxis(to, axis);
  const int64_t n = from.shape[axis], step = from.strides[axis], toStep = to.strides[axis];
  OMNIBAL_FOR_LINES(line, lines) {
    const Position at(source.shape, source.rank, line);
    const int64_t s = at.offset(source), t = at.offset(target);
    double top = -INFINITY, sum = 0;
    for (int64_t i = lane; i < n; i += 32) {
      const double x = loadReal(from, s + i * step);
      top = x > top || x != x ? x : top;
    }
    top = warpMax(top);
    for (int64_t i = lane; i < n; i += 32)
      sum += exp(loadReal(from, s + i * step) - top);
    sum = warpSum(sum);
    for (int64_t i = lane; i < n; i += 32) {
      const double x = loadReal(from, s + i * step) - top;
      storeReal(to, t + i * toStep, logarithm ? x - log(sum) : exp(x) / sum);
    }
    __syncwarp();
  }
}

/// 32 values at a time: their running sums in the warp, behind what came before.
__global__ void __launch_bounds__(plainThreads)
    cumSum(PlainView to, PlainView from, int64_t axisValue, PlainView axisAt, bool exclusive,
           bool reverse) {
  const int lane = threadIdx.x % 32;
  int64_t wrapped = axisAt.data ? loadInteger(axisAt, 0) : axisValue;
  wrapped += wrapped < 0 ? from.rank : 0;
  if (wrapped < 0 || wrapped >= from.rank)
    return;
  const int axis = static_cast<int>(wrapped);
  const PlainView source = withoutAxis(from, axis), target = withoutAxis(to, axis);
  const int64_t n = from.shape[axis];
  int64_t lines = 1;
  for (int d = 0; d < source.rank; ++d)
    lines *= source.shape[d];
  const bool real = isReal(to.type);
  OMNIBAL_FOR_LINES(line, lines) {
    const Position at(source.shape, source.rank, line);
    double before = 0;
    int64_t integersBefore = 0;
    for (int64_t first = 0; first < n; first += 32) {
      const int64_t k = first + lane, i = reverse ? n - 1 - k : k;
      const int64_t s = at.offset(source) + i * from.strides[axis];
      const double x = k < n && real ? loadReal(from, s) : 0;
      const int64_t integer = k < n && !real ? loadInteger(from, s) : 0;
      double sum = x;
      int64_t integers = integer;
      for (int distance = 1; distance < 32; distance *= 2) {
        const double other = __shfl_up_sync(allLanes, sum, distance);
        const int64_t otherInteger = __shfl_up_sync(allLanes, integers, distance);
        sum += lane >= distance ? other : 0;
        integers += lane >= distance ? otherInteger : 0;
      }
      const int64_t t = at.offset(target) + i * to.strides[axis];
      if (k < n && real)
        storeReal(to, t, before + sum - (exclusive ? x : 0));
      else if (k < n)
        storeInteger(to, t, integersBefore + integers - (exclusive ? integer : 0));
      before += __shfl_sync(allLanes, sum, 31);
      integersBefore += __shfl_sync(allLanes, integers, 31);
    }
  }
}

__global__ void __launch_bounds__(plainThreads)
    norm(int64_t groups, int64_t n, PlainNorm p, PlainView to, PlainView from, PlainView scale,
         PlainView bias) {
  const int lane = threadIdx.x % 32;
  OMNIBAL_FOR_LINES(group, groups) {
    double mean = 0, square = 0;
    for (int64_t i = lane; i < n && p.centered; i += 32)
      mean += loadReal(from, Position(from.shape, from.rank, group * n + i).offset(from));
    mean = warpSum(mean) / static_cast<double>(n);
    for (int64_t i = lane; i < n; i += 32) {
      const double x =
          loadReal(from, Position(from.shape, from.rank, group * n + i).offset(from)) - mean;
      square += x * x;
    }
    const double inverse = 1 / sqrt(warpSum(square) / static_cast<double>(n) + p.epsilon);
    for (int64_t i = lane; i < n; i += 32) {
      const Position at(from.shape, from.rank, group * n + i);
      double y = (loadReal(from, at.offset(from)) - mean) * inverse;
      y *= scale.data ? loadReal(scale, at.offset(scale)) : 1;
      y += bias.data ? loadReal(bias, at.offset(bias)) : 0;
      storeReal(to, at.offset(to), y);
    }
    __syncwarp();
  }
}

struct DenseRows {
  int64_t rows, cols, fromRow, toRow;
  bool centered;
  float epsilon;
};

constexpr int mostPacks = 4; ///< of a thread

/// A block a row of at most mostPacks * plainThreads packs.
template <typename T, int n>
__global__ void __launch_bounds__(plainThreads)
    normRows(DenseRows s, T *to, const T *from, const T *scale, const T *bias) {
  const int64_t packs = s.cols / n;
  const float count = static_cast<float>(s.cols);
  for (int64_t r = blockIdx.x; r < s.rows; r += gridDim.x) {
    float x[mostPacks][n];
    float sum = 0, square = 0;
#pragma unroll
    for (int j = 0; j < mostPacks; ++j) {
      const int64_t p = threadIdx.x + int64_t(j) * plainThreads;
      Pack<T, n> pack;
      if (p < packs)
        pack = loadPack<n>(from + r * s.fromRow + p * n);
#pragma unroll
      for (int e = 0; e < n; ++e) {
        x[j][e] = p < packs ? toFloat(pack.at[e]) : 0.f;
        sum += x[j][e];
      }
    }
    const float mean = s.centered ? blockSum<plainThreads>(sum) / count : 0.f;
#pragma unroll
    for (int j = 0; j < mostPacks; ++j) {
      const bool inside = threadIdx.x + int64_t(j) * plainThreads < packs;
#pragma unroll
      for (int e = 0; e < n; ++e) {
        x[j][e] -= mean;
        square += inside ? x[j][e] * x[j][e] : 0.f;
      }
    }
    const float inverse = 1 / sqrtf(blockSum<plainThreads>(square) / count + s.epsilon);
#pragma unroll
    for (int j = 0; j < mostPacks; ++j) {
      const int64_t p = threadIdx.x + int64_t(j) * plainThreads;
      if (p >= packs)
        continue;
      Pack<T, n> factor, shift, result;
      if (scale)
        factor = loadPack<n>(scale + p * n);
      if (bias)
        shift = loadPack<n>(bias + p * n);
#pragma unroll
      for (int e = 0; e < n; ++e) {
        float y = x[j][e] * inverse;
        y *= scale ? toFloat(factor.at[e]) : 1.f;
        y += bias ? toFloat(shift.at[e]) : 0.f;
        result.at[e] = fromFloat<T>(y);
      }
      storePack<n>(to + r * s.toRow + p * n, result);
    }
  }
}

/// The stride of rows if the leading dimensions make one and the last one is dense; -1 otherwise.
int64_t rowStride(const PlainView &v) {
  const int last = v.rank - 1;
  if (v.strides[last] != 1 && v.shape[last] != 1)
    return -1;
  int64_t row = 0, expected = 0;
  for (int d = last - 1; d >= 0; --d) {
    if (v.shape[d] == 1)
      continue;
    if (row == 0)
      row = v.strides[d];
    else if (v.strides[d] != expected)
      return -1;
    expected = v.strides[d] * v.shape[d];
  }
  return row;
}

/// One value a column, the same for all rows, dense.
bool isColumnwise(const PlainView &v, Element type) {
  if (!v.data)
    return true;
  for (int d = 0; d < v.rank - 1; ++d)
    if (v.shape[d] != 1 && v.strides[d] != 0)
      return false;
  return v.type == type && (v.strides[v.rank - 1] == 1 || v.shape[v.rank - 1] == 1);
}

/// Whether normRows serves.
template <typename T>
bool normDense(const PlainNorm &p, const PlainView &to, const PlainView &from,
               const PlainView &scale, const PlainView &bias, cudaStream_t stream) {
  constexpr int n = 16 / sizeof(T);
  const int last = to.rank - 1;
  const int64_t cols = to.shape[last];
  const int64_t toRow = rowStride(to), fromRow = rowStride(from);
  bool fits = p.axis == last && cols % n == 0 && cols <= mostPacks * plainThreads * n &&
              toRow >= 0 && fromRow >= 0 && toRow % n == 0 && fromRow % n == 0;
  for (const PlainView *v : {&to, &from, &scale, &bias})
    fits = fits && isAligned(v->data, 16);
  if (!fits || to.type != from.type || !isColumnwise(scale, to.type) ||
      !isColumnwise(bias, to.type))
    return false;
  const DenseRows s{to.elements() / cols,         cols, fromRow, toRow, p.centered,
                    static_cast<float>(p.epsilon)};
  OMNIBAL_LAUNCH((normRows<T, n>), dim3(gridFor(s.rows)), dim3(plainThreads), stream, s,
                 static_cast<T *>(to.data), static_cast<const T *>(from.data),
                 static_cast<const T *>(scale.data), static_cast<const T *>(bias.data));
  return true;
}

dim3 lineGrid(int64_t lines) { return dim3(gridFor(ceilDiv(lines, warps))); }

} // namespace

cudaError_t launchSoftmax(const PlainView &to, const PlainView &from, int axis, bool logarithm,
                          cudaStream_t stream) {
  if (to.elements() == 0)
    return cudaSuccess;
  const int64_t lines = to.elements() / to.shape[axis];
  OMNIBAL_LAUNCH(softmax, lineGrid(lines), dim3(plainThreads), stream, lines, to, from, axis,
                 logarithm);
  return cudaGetLastError();
}

cudaError_t launchCumSum(const PlainView &to, const PlainView &from, int64_t axis,
                         const PlainView &axisAt, bool exclusive, bool reverse,
                         cudaStream_t stream) {
  if (to.elements() == 0)
    return cudaSuccess;
  int64_t longest = 1; // enough blocks for the axis with the most lines
  for (int d = 0; d < to.rank; ++d)
    longest = to.elements() / to.shape[d] > longest ? to.elements() / to.shape[d] : longest;
  OMNIBAL_LAUNCH(cumSum, lineGrid(longest), dim3(plainThreads), stream, to, from, axis, axisAt,
                 exclusive, reverse);
  return cudaGetLastError();
}

cudaError_t launchNorm(const PlainNorm &p, const PlainView &to, const PlainView &from,
                       const PlainView &scale, const PlainView &bias, cudaStream_t stream) {
  if (to.elements() == 0)
    return cudaSuccess;
  if ((to.type == Element::F32 && normDense<float>(p, to, from, scale, bias, stream)) ||
      (to.type == Element::BF16 && normDense<bf16>(p, to, from, scale, bias, stream)))
    return cudaGetLastError();
  int64_t n = 1;
  for (int d = p.axis; d < to.rank; ++d)
    n *= to.shape[d];
  const int64_t groups = to.elements() / n;
  OMNIBAL_LAUNCH(norm, lineGrid(groups), dim3(plainThreads), stream, groups, n, p, to, from, scale,
                 bias);
  return cudaGetLastError();
}

} // namespace omnibal::rt::cuda
