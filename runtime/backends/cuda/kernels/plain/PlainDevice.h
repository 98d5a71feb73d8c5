//===- PlainDevice.h - Elements and positions of plain kernels, on the device -----------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_PLAIN_PLAINDEVICE_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_PLAIN_PLAINDEVICE_H

#include "runtime/backends/cuda/kernels/Device.h"
#include "runtime/backends/cuda/kernels/plain/Plain.h"

namespace omnibal::rt::cuda {

constexpr int plainThreads = 256;

__host__ __device__ inline bool isReal(Element type) {
  return type == Element::F32 || type == Element::F64 || type == Element::BF16;
}

__device__ inline int64_t loadInteger(const PlainView &v, int64_t offset) {
  switch (v.type) {
  case Element::F32:
    return static_cast<int64_t>(static_cast<const float *>(v.data)[offset]);
  case Element::F64:
    return static_cast<int64_t>(static_cast<const double *>(v.data)[offset]);
  case Element::BF16:
    return static_cast<int64_t>(toFloat(static_cast<const bf16 *>(v.data)[offset]));
  case Element::I32:
    return static_cast<const int32_t *>(v.data)[offset];
  case Element::I64:
    return static_cast<const int64_t *>(v.data)[offset];
  case Element::Bool:
    return static_cast<const uint8_t *>(v.data)[offset] != 0;
  }
  return 0;
}

__device__ inline double loadReal(const PlainView &v, int64_t offset) {
  switch (v.type) {
  case Element::F32:
    return static_cast<const float *>(v.data)[offset];
  case Element::F64:
    return static_cast<const double *>(v.data)[offset];
  case Element::BF16:
    return toFloat(static_cast<const bf16 *>(v.data)[offset]);
  default:
    return static_cast<double>(loadInteger(v, offset));
  }
}

__device__ inline void storeInteger(const PlainView &v, int64_t offset, int64_t value) {
  switch (v.type) {
  case Element::F32:
    static_cast<float *>(v.data)[offset] = static_cast<float>(value);
    break;
  case Element::F64:
    static_cast<double *>(v.data)[offset] = static_cast<double>(value);
    break;
  case Element::BF16:
    static_cast<bf16 *>(v.data)[offset] = fromFloat<bf16>(static_cast<float>(value));
    break;
  case Element::I32:
    static_cast<int32_t *>(v.data)[offset] = static_cast<int32_t>(value);
    break;
  case Element::I64:
    static_cast<int64_t *>(v.data)[offset] = value;
    break;
  case Element::Bool:
    static_cast<uint8_t *>(v.data)[offset] = value != 0;
    break;
  }
}

/// Integers truncate; what none of them holds saturates.
__device__ inline void storeReal(const PlainView &v, int64_t offset, double value) {
  switch (v.type) {
  case Element::F32:
    static_cast<float *>(v.data)[offset] = static_cast<float>(value);
    return;
  case Element::F64:
    static_cast<double *>(v.data)[offset] = value;
    return;
  case Element::BF16:
    static_cast<bf16 *>(v.data)[offset] = fromFloat<bf16>(static_cast<float>(value));
    return;
  case Element::Bool:
    static_cast<uint8_t *>(v.data)[offset] = value != 0;
    return;
  default: {
    const bool narrow = v.type == Element::I32;
    const double limit = narrow ? 2147483648.0 : 9223372036854775808.0;
    const int64_t least = narrow ? -int64_t{2147483648} : -int64_t{9223372036854775807} - 1;
    const int64_t most = narrow ? int64_t{2147483647} : int64_t{9223372036854775807};
    storeInteger(v, offset,
                 !(value > -limit - 1) ? least
                 : value >= limit      ? most
                                       : static_cast<int64_t>(value));
  }
  }
}

/// Copies an element between views of one type.
__device__ inline void copyElement(const PlainView &from, int64_t source, const PlainView &to,
                                   int64_t target) {
  if (isReal(to.type))
    storeReal(to, target, loadReal(from, source));
  else
    storeInteger(to, target, loadInteger(from, source));
}

/// The position with a row-major number in the dimensions [0, rank) of `shape`.
struct Position {
  int64_t at[PlainView::maxRank];

  __device__ Position(const int64_t *shape, int rank, int64_t number) {
    for (int d = rank - 1; d >= 0; --d) {
      at[d] = number % shape[d];
      number /= shape[d];
    }
  }
  /// Offset in `v`, whose first dimension is the position's `first`.
  __device__ int64_t offset(const PlainView &v, int first = 0) const {
    int64_t sum = 0;
    for (int d = 0; d < v.rank; ++d)
      sum += at[first + d] * v.strides[d];
    return sum;
  }
};

/// The lines along one axis: those of a view without that dimension.
__host__ __device__ inline PlainView withoutAxis(const PlainView &v, int axis) {
  PlainView rest = v;
  rest.rank = 0;
  for (int d = 0; d < v.rank; ++d)
    if (d != axis) {
      rest.shape[rest.rank] = v.shape[d];
      rest.strides[rest.rank++] = v.strides[d];
    }
  return rest;
}

/// Blocks for a thread an element, in a loop that strides by the grid.
inline dim3 plainGrid(int64_t elements) { return dim3(gridFor(ceilDiv(elements, plainThreads))); }

#define OMNIBAL_FOR_ELEMENTS(i, count)                                                             \
  for (int64_t i = int64_t(blockIdx.x) * plainThreads + threadIdx.x; i < (count);                  \
       i += int64_t(gridDim.x) * plainThreads)

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_PLAIN_PLAINDEVICE_H
