//===- LogitRows.h - A block a row: its statistics, and its gradient from them ----------------===//
//
// Only .cu files include this header.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_LOGITROWS_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_LOGITROWS_H

#include "runtime/backends/cuda/kernels/CrossEntropy.h"
#include "runtime/backends/cuda/kernels/Device.h"
#include <cmath>
#include <type_traits>

namespace omnibal::rt::cuda {

/// Of a block, which takes a row.
constexpr int rowThreads = 512;

__device__ __forceinline__ CrossEntropyRow emptyRow() { return {-INFINITY, 0.f, 0.f, 0x7fffffff}; }

/// Both parts of a row together; `target` is left alone.
__device__ __forceinline__ void merge(CrossEntropyRow &a, float top, float sum, int32_t largest) {
  if (top > a.top || (top == a.top && largest < a.largest))
    a.largest = largest;
  const float both = fmaxf(a.top, top);
  if (both == -INFINITY) { // nothing yet, or only logits of -inf
    a.sum += top != top ? top : sum;
    return;
  }
  a.sum = a.sum * expf(a.top - both) + sum * expf(top - both);
  a.top = both;
}

__device__ __forceinline__ CrossEntropyRow mergeWarp(CrossEntropyRow row) {
#pragma unroll
  for (int bits = 16; bits > 0; bits /= 2) {
    const float top = __shfl_xor_sync(allLanes, row.top, bits);
    const float sum = __shfl_xor_sync(allLanes, row.sum, bits);
    const int32_t largest = __shfl_xor_sync(allLanes, row.largest, bits);
    merge(row, top, sum, largest);
  }
  return row;
}

/// Returns the same in every thread of the block.
inline __device__ CrossEntropyRow mergeBlock(CrossEntropyRow row) {
  __shared__ CrossEntropyRow parts[rowThreads / 32];
  const int lane = threadIdx.x % 32;
  row = mergeWarp(row);
  __syncthreads(); // the last call's readers are done
  if (lane == 0)
    parts[threadIdx.x / 32] = row;
  __syncthreads();
  row = lane < rowThreads / 32 ? parts[lane] : emptyRow();
  return mergeWarp(row);
}

/// Visits a dense row: single values up to the first aligned pack, packs, and the rest. A thread
/// loads several packs before it uses the first, so that memory has enough to do.
template <int n, typename T, typename Single, typename Packed>
__device__ __forceinline__ void forRow(const T *row, int64_t width, Single single, Packed packed) {
  int64_t head = 0;
  if (n > 1) {
    const auto past = reinterpret_cast<uintptr_t>(row) % (n * sizeof(T));
    head = past == 0 ? 0 : static_cast<int64_t>(n - past / sizeof(T));
    head = head < width ? head : width;
  }
  const int64_t packsEnd = head + (n > 1 ? (width - head) / n * n : 0);
  for (int64_t at = threadIdx.x; at < head; at += rowThreads)
    single(at);
  constexpr int ahead = n > 4 ? 2 : 4; // registers
  constexpr int64_t step = int64_t(rowThreads) * n;
  int64_t i = head + int64_t(threadIdx.x) * n;
  for (; n > 1 && i + (ahead - 1) * step < packsEnd; i += ahead * step) {
    Pack<T, n> packs[ahead];
#pragma unroll
    for (int j = 0; j < ahead; ++j)
      packs[j] = loadPack<n>(row + i + j * step);
#pragma unroll
    for (int j = 0; j < ahead; ++j)
      packed(packs[j], i + j * step);
  }
  for (; i < packsEnd; i += step)
    packed(loadPack<n>(row + i), i);
  for (int64_t at = packsEnd + threadIdx.x; at < width; at += rowThreads)
    single(at);
}

template <int n, typename T>
__device__ CrossEntropyRow statistics(const T *row, int64_t width, int64_t firstClass) {
  CrossEntropyRow mine = emptyRow();
  auto add = [&](float x, int64_t i) {
    merge(mine, x, x == -INFINITY ? 0.f : 1.f, static_cast<int32_t>(firstClass + i));
  };
  forRow<n>(
      row, width, [&](int64_t i) { add(toFloat(row[i]), i); },
      [&](const Pack<T, n> &pack, int64_t i) {
        float x[n], top = -INFINITY;
        int best = 0;
#pragma unroll
        for (int e = 0; e < n; ++e) {
          x[e] = toFloat(pack.at[e]);
          if (x[e] > top) {
            top = x[e];
            best = e;
          }
        }
        const float both = fmaxf(mine.top, top);
        if (both == -INFINITY) { // only -inf so far; a NaN must not get lost
#pragma unroll
          for (int e = 0; e < n; ++e)
            mine.sum += x[e] != x[e] ? x[e] : 0.f;
          return;
        }
        if (top > mine.top)
          mine.largest = static_cast<int32_t>(firstClass + i + best);
        mine.sum *= expf(mine.top - both);
#pragma unroll
        for (int e = 0; e < n; ++e)
          mine.sum += expf(x[e] - both);
        mine.top = both;
      });
  return mergeBlock(mine);
}

/// The sum of a row's logits, the same in every thread of the block.
template <int n, typename T> __device__ float rowTotal(const T *row, int64_t width) {
  float sum = 0;
  forRow<n>(
      row, width, [&](int64_t i) { sum += toFloat(row[i]); },
      [&](const Pack<T, n> &pack, int64_t) {
#pragma unroll
        for (int e = 0; e < n; ++e)
          sum += toFloat(pack.at[e]);
      });
  return blockSum<rowThreads>(sum);
}

/// What the gradient of a row is made of: softmax * weight - each, and `target` less at the target.
struct Slopes {
  float weight = 1, each = 0, target = 1;
};

template <int n, typename T, typename G>
__device__ void writeGradient(const T *row, G *gradient, int64_t width, const CrossEntropyRow &all,
                              int64_t target, const Slopes &slopes = {}) {
  const float top = all.top, inverse = slopes.weight / all.sum;
  auto slope = [&](float x, int64_t i) {
    return expf(x - top) * inverse - slopes.each - (i == target ? slopes.target : 0.f);
  };
  forRow<n>(
      row, width, [&](int64_t i) { gradient[i] = fromFloat<G>(slope(toFloat(row[i]), i)); },
      [&](const Pack<T, n> &pack, int64_t i) {
        Pack<G, n> values;
#pragma unroll
        for (int e = 0; e < n; ++e)
          values.at[e] = fromFloat<G>(slope(toFloat(pack.at[e]), i + e));
        storePack<n>(gradient + i, values);
      });
}

/// Packs where the row is aligned to them.
template <int n, typename T> __device__ void zeroRow(T *row, int64_t width) {
  const bool aligned = reinterpret_cast<uintptr_t>(row) % (n * sizeof(T)) == 0;
  const int64_t packsEnd = aligned ? width / n * n : 0;
  Pack<T, n> pack;
#pragma unroll
  for (int e = 0; e < n; ++e)
    pack.at[e] = fromFloat<T>(0.f);
  for (int64_t i = int64_t(threadIdx.x) * n; i < packsEnd; i += int64_t(rowThreads) * n)
    storePack<n>(row + i, pack);
  for (int64_t i = packsEnd + threadIdx.x; i < width; i += rowThreads)
    row[i] = fromFloat<T>(0.f);
}

/// Packs need the same alignment of a row on both sides.
template <typename T, typename G>
bool packable(const CrossEntropyShape &s, const T *logits, const G *gradient) {
  if (!gradient || (static_cast<const void *>(logits) == gradient && s.logitsRow == s.gradientRow))
    return true;
  return isAligned(logits, 16) && isAligned(gradient, 16) &&
         s.logitsRow * static_cast<int64_t>(sizeof(T)) % 16 == 0 &&
         s.gradientRow * static_cast<int64_t>(sizeof(G)) % 16 == 0;
}

/// Calls run(the logits, the gradient, a compile-time pack size).
template <typename Run>
cudaError_t choose(const CrossEntropyShape &s, const void *logits, void *gradient, Run run) {
  if (s.rows == 0)
    return cudaSuccess;
  auto typed = [&](auto *x, auto *g) {
    constexpr int n = 16 / sizeof(*x);
    if (packable(s, x, g))
      run(x, g, std::integral_constant<int, n>());
    else
      run(x, g, std::integral_constant<int, 1>());
    return cudaGetLastError();
  };
  if (s.type == Element::F32 && !s.narrowGradient)
    return typed(static_cast<const float *>(logits), static_cast<float *>(gradient));
  if (s.type == Element::F32 && logits != gradient)
    return typed(static_cast<const float *>(logits), static_cast<bf16 *>(gradient));
  if (s.type == Element::BF16 && !s.narrowGradient)
    return typed(static_cast<const bf16 *>(logits), static_cast<bf16 *>(gradient));
  return cudaErrorInvalidValue;
}

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_LOGITROWS_H
