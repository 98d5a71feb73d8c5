//===- GroupedDevice.h - Where rows lie and of which group they are, on the device -----------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_MATRIX_GROUPEDDEVICE_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_MATRIX_GROUPEDDEVICE_H

#include "runtime/backends/cuda/kernels/Device.h"
#include "runtime/backends/cuda/kernels/matrix/Grouped.h"

namespace omnibal::rt::cuda {

__device__ __forceinline__ int64_t offsetOf(const RepeatedRows &s, int64_t row) {
  return row / s.inner * s.outer + row % s.inner * s.step;
}

/// The group that holds a place of the order.
__device__ __forceinline__ int64_t groupAt(const int32_t *borders, int64_t groups, int64_t place) {
  int64_t low = 0, high = groups; // borders[low] <= place < borders[high]
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (borders[middle] <= place ? low : high) = middle;
  }
  return low;
}

/// Calls part(group, first, last) for the places [begin, end) of each group that has some there.
template <typename Part>
__device__ __forceinline__ void forGroups(const int32_t *borders, int64_t groups, int64_t begin,
                                          int64_t end, const Part &part) {
  for (int64_t g = groupAt(borders, groups, begin); begin < end && g < groups; ++g) {
    const int64_t border = borders[g + 1], last = border < end ? border : end;
    if (last <= begin)
      continue; // a group without rows
    part(g, begin, last);
    begin = last;
  }
}

/// Launches the same products in bfloat16 on the tensor cores; returns false, and launches nothing,
/// if operands do not lie in packs of 16 bytes.
bool launchGroupedGemmMma(const GroupedShape &shape, const int32_t *order, const int32_t *borders,
                          const void *a, const void *b, void *c, cudaStream_t stream);
bool launchGroupedGemmBackwardMma(const GroupedGradShape &shape, const int32_t *order,
                                  const int32_t *borders, const void *a, const void *b, void *c,
                                  cudaStream_t stream);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_MATRIX_GROUPEDDEVICE_H
