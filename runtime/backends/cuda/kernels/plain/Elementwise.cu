//===- Elementwise.cu - A thread an element ---------------------------------------------------===//
#include "runtime/backends/cuda/kernels/plain/PlainDevice.h"

namespace omnibal::rt::cuda {
namespace {

__global__ void __launch_bounds__(plainThreads)
    unary(plain::Unary op, int64_t count, PlainView to, PlainView from) {
  const bool integers = plain::onIntegers(op) && !isReal(from.type);
  OMNIBAL_FOR_ELEMENTS(i, count) {
    const Position at(to.shape, to.rank, i);
    const int64_t source = at.offset(from), target = at.offset(to);
    if (integers)
      storeInteger(to, target, plain::apply(op, loadInteger(from, source)));
    else
      storeReal(to, target, plain::apply(op, loadReal(from, source)));
  }
}

__global__ void __launch_bounds__(plainThreads)
    binary(plain::Binary op, int64_t count, PlainView to, PlainView a, PlainView b) {
  const bool integers = plain::onIntegers(op) && !isReal(a.type) && !isReal(b.type);
  OMNIBAL_FOR_ELEMENTS(i, count) {
    const Position at(to.shape, to.rank, i);
    const int64_t left = at.offset(a), right = at.offset(b), target = at.offset(to);
    if (integers)
      storeInteger(to, target, plain::apply(op, loadInteger(a, left), loadInteger(b, right)));
    else
      storeReal(to, target, plain::apply(op, loadReal(a, left), loadReal(b, right)));
  }
}

__global__ void __launch_bounds__(plainThreads)
    select(int64_t count, PlainView to, PlainView condition, PlainView yes, PlainView no) {
  OMNIBAL_FOR_ELEMENTS(i, count) {
    const Position at(to.shape, to.rank, i);
    const PlainView &from = loadInteger(condition, at.offset(condition)) ? yes : no;
    copyElement(from, at.offset(from), to, at.offset(to));
  }
}

__global__ void __launch_bounds__(plainThreads)
    trilu(int64_t count, PlainView to, PlainView from, PlainView diagonal, bool upper) {
  const int64_t k = diagonal.data ? loadInteger(diagonal, 0) : 0;
  OMNIBAL_FOR_ELEMENTS(i, count) {
    const Position at(to.shape, to.rank, i);
    const int64_t above = at.at[to.rank - 1] - at.at[to.rank - 2] - k;
    if (upper ? above >= 0 : above <= 0)
      copyElement(from, at.offset(from), to, at.offset(to));
    else
      storeInteger(to, at.offset(to), 0);
  }
}

__global__ void __launch_bounds__(plainThreads)
    range(int64_t count, PlainView to, PlainView start, PlainView delta) {
  OMNIBAL_FOR_ELEMENTS(i, count) {
    if (isReal(to.type))
      storeReal(to, i * to.strides[0],
                loadReal(start, 0) + static_cast<double>(i) * loadReal(delta, 0));
    else
      storeInteger(to, i * to.strides[0], loadInteger(start, 0) + i * loadInteger(delta, 0));
  }
}

} // namespace

cudaError_t launchUnary(plain::Unary op, const PlainView &to, const PlainView &from,
                        cudaStream_t stream) {
  const int64_t count = to.elements();
  if (count == 0)
    return cudaSuccess;
  OMNIBAL_LAUNCH(unary, plainGrid(count), dim3(plainThreads), stream, op, count, to, from);
  return cudaGetLastError();
}

cudaError_t launchBinary(plain::Binary op, const PlainView &to, const PlainView &a,
                         const PlainView &b, cudaStream_t stream) {
  const int64_t count = to.elements();
  if (count == 0)
    return cudaSuccess;
  OMNIBAL_LAUNCH(binary, plainGrid(count), dim3(plainThreads), stream, op, count, to, a, b);
  return cudaGetLastError();
}

cudaError_t launchSelect(const PlainView &to, const PlainView &condition, const PlainView &yes,
                         const PlainView &no, cudaStream_t stream) {
  const int64_t count = to.elements();
  if (count == 0)
    return cudaSuccess;
  OMNIBAL_LAUNCH(select, plainGrid(count), dim3(plainThreads), stream, count, to, condition, yes,
                 no);
  return cudaGetLastError();
}

cudaError_t launchTrilu(const PlainView &to, const PlainView &from, const PlainView &diagonal,
                        bool upper, cudaStream_t stream) {
  const int64_t count = to.elements();
  if (count == 0)
    return cudaSuccess;
  OMNIBAL_LAUNCH(trilu, plainGrid(count), dim3(plainThreads), stream, count, to, from, diagonal,
                 upper);
  return cudaGetLastError();
}

cudaError_t launchRange(const PlainView &to, const PlainView &start, const PlainView &delta,
                        cudaStream_t stream) {
  const int64_t count = to.elements();
  if (count == 0)
    return cudaSuccess;
  OMNIBAL_LAUNCH(range, plainGrid(count), dim3(plainThreads), stream, count, to, start, delta);
  return cudaGetLastError();
}

} // namespace omnibal::rt::cuda
