//===- Indexing.cu - Gathers, and scatters in the order of their updates ----------------------===//
#include "runtime/backends/cuda/kernels/Order.h"
#include "runtime/backends/cuda/kernels/plain/PlainDevice.h"

namespace omnibal::rt::cuda {
namespace {

/// Adds the place of a (wrapped) index along dimension d; false if it is outside.
__device__ bool addIndex(const PlainView &into, int d, int64_t index, int64_t &offset) {
  index += index < 0 ? into.shape[d] : 0;
  offset += index * into.strides[d];
  return index >= 0 && index < into.shape[d];
}

__device__ bool resolve(const PlainIndex &index, const PlainView &into, const Position &position,
                        int64_t &offset) {
  const PlainView &which = index.indices;
  offset = 0;
  if (index.kind == IndexKind::Axis) {
    for (int d = 0; d < into.rank; ++d)
      if (d != index.first)
        offset += position.at[d < index.first ? d : d - 1 + which.rank] * into.strides[d];
    return addIndex(into, index.first, loadInteger(which, position.offset(which, index.first)),
                    offset);
  }
  if (index.kind == IndexKind::Element) {
    offset = position.offset(into) - position.at[index.first] * into.strides[index.first];
    return addIndex(into, index.first, loadInteger(which, position.offset(which)), offset);
  }
  const int last = which.rank - 1, length = static_cast<int>(which.shape[last]);
  int64_t place = 0;
  for (int d = 0; d < last; ++d)
    place += position.at[d] * which.strides[d];
  for (int d = 0; d < index.first; ++d)
    offset += position.at[d] * into.strides[d];
  for (int i = 0; i < length; ++i)
    if (!addIndex(into, index.first + i, loadInteger(which, place + i * which.strides[last]),
                  offset))
      return false;
  for (int d = index.first + length; d < into.rank; ++d)
    offset += position.at[last + d - index.first - length] * into.strides[d];
  return true;
}

__global__ void __launch_bounds__(plainThreads)
    gather(int64_t count, PlainIndex index, PlainView to, PlainView from) {
  OMNIBAL_FOR_ELEMENTS(i, count) {
    const Position at(to.shape, to.rank, i);
    int64_t source;
    if (resolve(index, from, at, source))
      copyElement(from, source, to, at.offset(to));
    else
      storeInteger(to, at.offset(to), 0);
  }
}

/// Whether value x at place i comes before y at place j; what is no number comes first.
__device__ bool precedes(double x, int64_t i, double y, int64_t j, bool smallest) {
  if (x == y || (x != x && y != y))
    return i < j;
  if (x != x || y != y)
    return x != x;
  return smallest ? x < y : x > y;
}

/// A thread a line: each pass finds what follows the last place found.
__global__ void __launch_bounds__(plainThreads)
    topK(int64_t lines, PlainView to, PlainView from, bool smallest) {
  const int last = from.rank - 1;
  const int64_t size = from.shape[last], step = from.strides[last];
  OMNIBAL_FOR_ELEMENTS(i, lines) {
    const Position at(from.shape, last, i);
    int64_t source = 0, target = 0;
    for (int d = 0; d < last; ++d) {
      source += at.at[d] * from.strides[d];
      target += at.at[d] * to.strides[d];
    }
    int64_t before = -1;
    double beforeValue = 0;
    for (int64_t n = 0; n < to.shape[last]; ++n) {
      int64_t best = -1;
      double bestValue = 0;
      for (int64_t j = 0; j < size; ++j) {
        const double x = loadReal(from, source + j * step);
        if ((before < 0 || precedes(beforeValue, before, x, j, smallest)) &&
            (best < 0 || precedes(x, j, bestValue, best, smallest))) {
          best = j;
          bestValue = x;
        }
      }
      storeInteger(to, target + n * to.strides[last], best);
      before = best;
      beforeValue = bestValue;
    }
  }
}

/// Writes where each update goes: an offset in `to`, or -1.
__global__ void __launch_bounds__(plainThreads)
    targets(int64_t count, PlainIndex index, PlainView to, PlainView updates, int64_t *target) {
  OMNIBAL_FOR_ELEMENTS(i, count) {
    int64_t offset;
    const bool inside = resolve(index, to, Position(updates.shape, updates.rank, i), offset);
    target[i] = inside ? offset : -1;
  }
}

__device__ void combine(ScatterKind kind, const PlainView &to, int64_t target,
                        const PlainView &from, int64_t source) {
  if (isReal(to.type)) {
    const double old = loadReal(to, target), x = loadReal(from, source);
    storeReal(to, target,
              kind == ScatterKind::None  ? x
              : kind == ScatterKind::Add ? old + x
              : kind == ScatterKind::Mul ? old * x
              : kind == ScatterKind::Max ? (x > old || x != x ? x : old)
                                         : (x < old || x != x ? x : old));
    return;
  }
  const int64_t old = loadInteger(to, target), x = loadInteger(from, source);
  using plain::Binary;
  storeInteger(to, target,
               kind == ScatterKind::None  ? x
               : kind == ScatterKind::Add ? plain::apply(Binary::Add, old, x)
               : kind == ScatterKind::Mul ? plain::apply(Binary::Mul, old, x)
               : kind == ScatterKind::Max ? plain::apply(Binary::Max, old, x)
                                          : plain::apply(Binary::Min, old, x));
}

/// A thread a place of the order; where a new target begins it does all of that target's updates.
__global__ void __launch_bounds__(plainThreads)
    scatter(int64_t count, ScatterKind kind, PlainView to, PlainView updates, const int64_t *target,
            const int32_t *order) {
  OMNIBAL_FOR_ELEMENTS(i, count) {
    const int64_t mine = target[order[i]];
    if (mine < 0 || (i > 0 && target[order[i - 1]] == mine))
      continue;
    for (int64_t j = i; j < count && target[order[j]] == mine; ++j)
      combine(kind, to, mine, updates,
              Position(updates.shape, updates.rank, order[j]).offset(updates));
  }
}

} // namespace

cudaError_t launchGather(const PlainIndex &index, const PlainView &to, const PlainView &from,
                         cudaStream_t stream) {
  const int64_t count = to.elements();
  if (count == 0)
    return cudaSuccess;
  OMNIBAL_LAUNCH(gather, plainGrid(count), dim3(plainThreads), stream, count, index, to, from);
  return cudaGetLastError();
}

cudaError_t launchTopK(const PlainView &to, const PlainView &from, bool smallest,
                       cudaStream_t stream) {
  const int64_t lines = from.shape[from.rank - 1] ? from.elements() / from.shape[from.rank - 1] : 0;
  if (lines == 0 || to.elements() == 0)
    return cudaSuccess;
  OMNIBAL_LAUNCH(topK, plainGrid(lines), dim3(plainThreads), stream, lines, to, from, smallest);
  return cudaGetLastError();
}

int64_t scatterBytes(int64_t updates) {
  return updates * int64_t{sizeof(int64_t)} + orderBytes(updates);
}

cudaError_t launchScatter(const PlainIndex &index, ScatterKind kind, const PlainView &to,
                          const PlainView &updates, void *scratch, cudaStream_t stream) {
  const int64_t count = updates.elements();
  if (count == 0)
    return cudaSuccess;
  auto *target = static_cast<int64_t *>(scratch);
  auto *order = reinterpret_cast<int32_t *>(target + count);
  OMNIBAL_LAUNCH(targets, plainGrid(count), dim3(plainThreads), stream, count, index, to, updates,
                 target);
  if (const cudaError_t error = launchOrder(count, target, order, stream); error != cudaSuccess)
    return error;
  OMNIBAL_LAUNCH(scatter, plainGrid(count), dim3(plainThreads), stream, count, kind, to, updates,
                 target, order);
  return cudaGetLastError();
}

} // namespace omnibal::rt::cuda
