//===- StridedLoop.h - Walking several strided tensors of one shape together -------------===//
//
// Dimensions of size 1 are dropped, and the others are ordered by the strides of operand 0 (longest
// first) and merged where all operands allow it. What remains is an outer index and an inner line.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_HOST_KERNELS_STRIDEDLOOP_H
#define RUNTIME_BACKENDS_HOST_KERNELS_STRIDEDLOOP_H

#include "runtime/device/Kernel.h"
#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace omnibal::rt {

template <int operands> struct StridedLoop {
  int rank = 0;
  int64_t shape[TensorView::maxRank + 1] = {};
  int64_t strides[operands][TensorView::maxRank + 1] = {};
  using Offsets = std::array<int64_t, operands>;

  /// Builds the loop. All views have the same shape. With `keepOrder` dimensions stay in the order
  /// of the views.
  static StridedLoop build(const std::array<const TensorView *, operands> &views,
                           bool keepOrder = false) {
    StridedLoop loop;
    const TensorView &first = *views[0];
    for (int d = 0; d < first.rank; ++d) {
      if (first.shape[d] == 1)
        continue;
      loop.shape[loop.rank] = first.shape[d];
      for (int o = 0; o < operands; ++o)
        loop.strides[o][loop.rank] = views[o]->strides[d];
      ++loop.rank;
    }
    if (!keepOrder)
      loop.sortByFirstOperand();
    loop.merge();
    if (loop.rank == 0) { // a single element is a line of one
      loop.rank = 1;
      loop.shape[0] = 1;
      for (int o = 0; o < operands; ++o)
        loop.strides[o][0] = 1;
    }
    return loop;
  }

  int64_t inner() const { return shape[rank - 1]; }
  int64_t innerStride(int operand) const { return strides[operand][rank - 1]; }
  int64_t outer() const {
    int64_t n = 1;
    for (int d = 0; d < rank - 1; ++d)
      n *= shape[d];
    return n;
  }

  /// Calls body(offsets) for lines [begin, end) of the outer index.
  template <typename Body> void forLines(int64_t begin, int64_t end, Body &&body) const {
    if (begin >= end)
      return; // dimensions may be 0
    int64_t index[TensorView::maxRank + 1] = {};
    Offsets offsets{};
    int64_t rest = begin;
    for (int d = rank - 2; d >= 0; --d) {
      index[d] = rest % shape[d];
      rest /= shape[d];
      for (int o = 0; o < operands; ++o)
        offsets[o] += index[d] * strides[o][d];
    }
    for (int64_t line = begin; line < end; ++line) {
      body(offsets);
      for (int d = rank - 2; d >= 0; --d) {
        for (int o = 0; o < operands; ++o)
          offsets[o] += strides[o][d];
        if (++index[d] < shape[d])
          break;
        for (int o = 0; o < operands; ++o)
          offsets[o] -= shape[d] * strides[o][d];
        index[d] = 0;
      }
    }
  }

  /// Splits the lines among threads, about `grain` elements a task; body(offsets, first, count)
  /// gets a part of a line. A long single line is split too.
  template <typename Body>
  void parallel(ThreadPool &pool, Body &&body, int64_t grain = 16384) const {
    const int64_t lines = outer(), length = inner();
    if (lines == 0 || length == 0)
      return;
    const int64_t part = std::min(length, std::max<int64_t>(grain, 1));
    const int64_t parts = (length + part - 1) / part;
    const int64_t group = std::max<int64_t>(1, grain / length);
    const int64_t groups = (lines + group - 1) / group;
    pool.parallelFor(groups * parts, [&](int64_t task, int) {
      const int64_t firstLine = task / parts * group, begin = task % parts * part;
      forLines(firstLine, std::min(lines, firstLine + group), [&](const Offsets &offsets) {
        body(offsets, begin, std::min(part, length - begin));
      });
    });
  }

  void swapDimensions(int a, int b) {
    std::swap(shape[a], shape[b]);
    for (int o = 0; o < operands; ++o)
      std::swap(strides[o][a], strides[o][b]);
  }

private:
  void sortByFirstOperand() {
    for (int i = 1; i < rank; ++i) // insertion: stable, at most 8 dimensions
      for (int d = i; d > 0 && std::abs(strides[0][d - 1]) < std::abs(strides[0][d]); --d)
        swapDimensions(d - 1, d);
  }

  void merge() {
    int kept = 0;
    for (int d = 1; d < rank; ++d) {
      bool fits = true;
      for (int o = 0; o < operands; ++o)
        fits &= strides[o][kept] == strides[o][d] * shape[d];
      if (fits) {
        shape[kept] *= shape[d];
        for (int o = 0; o < operands; ++o)
          strides[o][kept] = strides[o][d];
        continue;
      }
      ++kept;
      shape[kept] = shape[d];
      for (int o = 0; o < operands; ++o)
        strides[o][kept] = strides[o][d];
    }
    if (rank > 0)
      rank = kept + 1;
  }
};

} // namespace omnibal::rt
#endif // RUNTIME_BACKENDS_HOST_KERNELS_STRIDEDLOOP_H
