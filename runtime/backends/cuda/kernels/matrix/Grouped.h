//===- Grouped.h - Rows in groups and products with the matrix of each group ------------------===//
//
// Only the device knows how rows fall into groups: launches depend on the number of rows, and never
// on the groups' sizes.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_MATRIX_GROUPED_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_MATRIX_GROUPED_H

#include "runtime/backends/cuda/kernels/Strides.h"
#include <cuda_runtime_api.h>

namespace omnibal::rt::cuda {

/// Rows in memory, `inner` of them `step` apart, those `outer` apart; a stride of 0 repeats.
struct RepeatedRows {
  int64_t inner = 1, outer = 0, step = 0, col = 1;
};

/// Matrices [rows, cols] of each group in memory.
struct GroupedMatrices {
  int64_t group = 0, row = 0, col = 1;
};

/// order[0..count) = rows sorted by their group, of equal ones in their own order;
/// borders[0..groups] = where groups begin in it. `keys` are int32, or int64 if `wide`; `places`
/// is scratch of orderBytes(count). Keys lie in [0, groups).
cudaError_t launchGroupRows(int64_t count, int64_t groups, const void *keys, bool wide,
                            int32_t *places, int32_t *order, int32_t *borders, cudaStream_t stream);

struct GroupedShape {
  int64_t rows = 0, groups = 0;
  int64_t depth = 0, cols = 0; ///< b is [groups, depth, cols]
  RepeatedRows a, c;
  GroupedMatrices b;
  Element type = Element::F32;       ///< of a and b: F32 or BF16
  Element resultType = Element::F32; ///< of c: the same, or F32
};

/// c[r] = a[r] b[group of r], float32 sums in the order of the depth.
cudaError_t launchGroupedGemm(const GroupedShape &shape, const int32_t *order,
                              const int32_t *borders, const void *a, const void *b, void *c,
                              cudaStream_t stream);

struct GroupedGradShape {
  int64_t groups = 0;
  int64_t rows = 0, cols = 0; ///< c is [groups, rows, cols]
  RepeatedRows a, b;          ///< with `rows` and `cols` columns
  GroupedMatrices c;
  Element type = Element::F32;       ///< of a and b: F32 or BF16
  Element resultType = Element::F32; ///< of c: the same, or F32
};

/// c[g] += the sum of a[r]^T b[r] over the rows of group g, in their order.
cudaError_t launchGroupedGemmBackward(const GroupedGradShape &shape, const int32_t *order,
                                      const int32_t *borders, const void *a, const void *b, void *c,
                                      cudaStream_t stream);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_MATRIX_GROUPED_H
