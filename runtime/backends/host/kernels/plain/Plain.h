//===- Plain.h - What the plain kernels share --------------------------------------------===//
//
// Plain kernels exist so that any imported graph runs. Numbers are read as double (floating point)
// or int64 (the rest), whatever the element type, computed, and rounded once when written.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_HOST_KERNELS_PLAIN_PLAIN_H
#define RUNTIME_BACKENDS_HOST_KERNELS_PLAIN_PLAIN_H

#include "runtime/backends/host/kernels/HostKernel.h"
#include "runtime/support/BFloat16.h"
#include <algorithm>
#include <cmath>

namespace omnibal::rt::plain {

inline bool isFloat(DType type) {
  return type == DType::F32 || type == DType::F64 || type == DType::BF16;
}

inline int64_t loadInteger(const TensorView &v, int64_t offset) {
  switch (v.dtype) {
  case DType::F32:
    return static_cast<int64_t>(dataOf<float>(v)[offset]);
  case DType::F64:
    return static_cast<int64_t>(dataOf<double>(v)[offset]);
  case DType::I32:
    return dataOf<int32_t>(v)[offset];
  case DType::I64:
    return dataOf<int64_t>(v)[offset];
  case DType::Bool:
    return dataOf<uint8_t>(v)[offset] != 0;
  case DType::BF16:
    return static_cast<int64_t>(dataOf<BFloat16>(v)[offset].toFloat());
  }
  return 0;
}

inline double loadReal(const TensorView &v, int64_t offset) {
  switch (v.dtype) {
  case DType::F32:
    return dataOf<float>(v)[offset];
  case DType::F64:
    return dataOf<double>(v)[offset];
  case DType::BF16:
    return dataOf<BFloat16>(v)[offset].toFloat();
  default:
    return static_cast<double>(loadInteger(v, offset));
  }
}

inline void storeInteger(const TensorView &v, int64_t offset, int64_t value) {
  switch (v.dtype) {
  case DType::F32:
    dataOf<float>(v)[offset] = static_cast<float>(value);
    break;
  case DType::F64:
    dataOf<double>(v)[offset] = static_cast<double>(value);
    break;
  case DType::I32:
    dataOf<int32_t>(v)[offset] = static_cast<int32_t>(value);
    break;
  case DType::I64:
    dataOf<int64_t>(v)[offset] = value;
    break;
  case DType::Bool:
    dataOf<uint8_t>(v)[offset] = value != 0;
    break;
  case DType::BF16:
    dataOf<BFloat16>(v)[offset] = BFloat16::fromDouble(static_cast<double>(value));
    break;
  }
}

inline void storeReal(const TensorView &v, int64_t offset, double value) {
  switch (v.dtype) {
  case DType::F32:
    dataOf<float>(v)[offset] = static_cast<float>(value);
    break;
  case DType::F64:
    dataOf<double>(v)[offset] = value;
    break;
  case DType::BF16:
    dataOf<BFloat16>(v)[offset] = BFloat16::fromDouble(value);
    break;
  case DType::Bool:
    dataOf<uint8_t>(v)[offset] = value != 0;
    break;
  default: { // truncation; values that no integer holds saturate instead of being undefined
    const double limit = v.dtype == DType::I32 ? 2147483648.0 : 9223372036854775808.0;
    if (!(value > -limit - 1))
      storeInteger(v, offset, v.dtype == DType::I32 ? INT32_MIN : INT64_MIN);
    else if (value >= limit)
      storeInteger(v, offset, v.dtype == DType::I32 ? INT32_MAX : INT64_MAX);
    else
      storeInteger(v, offset, static_cast<int64_t>(value));
  }
  }
}

/// Copies one element between views of one type.
inline void copyElement(const TensorView &from, int64_t source, const TensorView &to,
                        int64_t target) {
  if (isFloat(to.dtype))
    storeReal(to, target, loadReal(from, source));
  else
    storeInteger(to, target, loadInteger(from, source));
}

/// Counts through an index space in row-major order.
class Counter {
public:
  Counter(const int64_t *shape, int rank) : rank(rank) {
    for (int d = 0; d < rank; ++d) {
      sizes[d] = shape[d];
      total *= shape[d];
    }
  }
  int64_t count() const { return total; }
  /// Goes to the position with this row-major number.
  void seek(int64_t number) {
    for (int d = rank - 1; d >= 0; --d) {
      index[d] = sizes[d] ? number % sizes[d] : 0;
      number = sizes[d] ? number / sizes[d] : 0;
    }
  }
  void next() {
    for (int d = rank - 1; d >= 0; --d) {
      if (++index[d] < sizes[d])
        return;
      index[d] = 0;
    }
  }
  /// Offset of the position in a view; its first dimension is dimension `first` of the counter.
  int64_t offset(const TensorView &v, int first = 0) const {
    int64_t sum = 0;
    for (int d = 0; d < v.rank && first + d < rank; ++d)
      sum += index[first + d] * v.strides[d];
    return sum;
  }

  int64_t index[TensorView::maxRank] = {};

private:
  int rank;
  int64_t sizes[TensorView::maxRank] = {};
  int64_t total = 1;
};

/// Runs body(counter) for every position of `shape`, in parallel over contiguous ranges.
template <typename Body>
void forPositions(const TensorView &shape, ThreadPool &pool, const Body &body,
                  int64_t grain = 4096) {
  const int64_t total = shape.elements();
  pool.parallelFor((total + grain - 1) / grain, [&](int64_t task, int) {
    Counter counter(shape.shape, shape.rank);
    counter.seek(task * grain);
    for (int64_t i = task * grain; i < std::min(total, (task + 1) * grain); ++i) {
      body(counter);
      counter.next();
    }
  });
}

class PlainKernel : public HostKernel {
protected:
  using HostKernel::HostKernel;

  /// Returns the view with the result's rank and shape, as NumPy broadcasts.
  Result<TensorView> broadcast(const TensorView &view, const TensorView &to) const {
    TensorView wide = to;
    wide.data = view.data;
    wide.dtype = view.dtype;
    const int shift = to.rank - view.rank;
    for (int d = 0; d < to.rank; ++d) {
      const bool given = d >= shift;
      const int64_t size = given ? view.shape[d - shift] : 1;
      if (size != 1 && size != to.shape[d])
        return bad("shape " + printShape(view) + " does not broadcast to " + printShape(to));
      wide.strides[d] = given && size == to.shape[d] ? view.strides[d - shift] : 0;
    }
    if (shift < 0)
      return bad("shape " + printShape(view) + " does not broadcast to " + printShape(to));
    return wide;
  }

  /// Returns an axis in [0, rank); negative ones count from the end.
  Result<int> axisOf(int64_t axis, const TensorView &view) const {
    const int64_t positive = axis < 0 ? axis + view.rank : axis;
    if (positive < 0 || positive >= view.rank)
      return bad("axis " + std::to_string(axis) + " of shape " + printShape(view));
    return static_cast<int>(positive);
  }

  Status badIndex(int64_t index, int64_t size) const {
    return bad("index " + std::to_string(index) + " is outside the " + std::to_string(size) +
               " elements of its dimension");
  }
};

/// Returns an index in [0, size), with negative ones counted from the end, or -1.
inline int64_t wrapIndex(int64_t index, int64_t size) {
  const int64_t positive = index < 0 ? index + size : index;
  return positive >= 0 && positive < size ? positive : -1;
}

} // namespace omnibal::rt::plain
#endif // RUNTIME_BACKENDS_HOST_KERNELS_PLAIN_PLAIN_H
