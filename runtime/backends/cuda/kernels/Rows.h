//===- Rows.h - Rows by index: embedding, image merge, labeled rows, and their gradients ----===//
//
// Indices are dense int32 in device memory and were checked before (the host checks what it feeds).
// No launcher adds floating-point numbers atomically: the same input gives the same bits.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_CUDA_KERNELS_ROWS_H
#define RUNTIME_BACKENDS_CUDA_KERNELS_ROWS_H

#include "runtime/backends/cuda/kernels/Strides.h"
#include <cuda_runtime_api.h>

namespace omnibal::rt::cuda {

struct SelectShape {
  int64_t rows = 0, cols = 0; ///< of `out`
  RowStrides out, chosen, other;
  Element type = Element::F32;       ///< of out and other: F32 or BF16
  Element chosenType = Element::F32; ///< the same, or F32 into BF16
};

/// Writes out[i] = chosen[index[i]] where index[i] >= 0, otherwise other[i]. Zeros stand for a
/// `chosen` or `other` that is null; `other` may be `out`. In an embedding other is null. In an
/// image merge chosen is the features and other the text; in its gradient of the text chosen is
/// null and other the gradient.
cudaError_t launchSelectRows(const SelectShape &shape, const int32_t *index, const void *chosen,
                             const void *other, void *out, cudaStream_t stream);

struct ScatterShape {
  int64_t rows = 0, cols = 0; ///< of `from`
  RowStrides out, from;
  Element type = Element::F32;
};

/// out[index[i]] = from[i] where index[i] >= 0; no two indices are equal.
cudaError_t launchScatterRows(const ScatterShape &shape, const int32_t *index, const void *from,
                              void *out, cudaStream_t stream);

struct AddRowsShape {
  int64_t rows = 0, cols = 0; ///< of `from`
  RowStrides out, from;
  Element outType = Element::F32, fromType = Element::F32; ///< equal, or BF16 into F32
  int32_t left = -1;                                       ///< an index that is left out
};

/// out[index[i]] += from[i] for index[i] >= 0 that is not `left`; `order` from launchOrder. The
/// rows of an index are added in the order of i where they are up to 32, else in parts whose order
/// follows from their number. Sums are float32 and round once into a bfloat16 `out`.
cudaError_t launchAddRows(const AddRowsShape &shape, const int32_t *index, const int32_t *order,
                          const void *from, void *out, cudaStream_t stream);

/// tokens[0..rows) = the positions with target >= 0, ascending, then the others, ascending.
/// `count`, in device memory: how many have one.
cudaError_t launchLabeledRows(int64_t rows, const int32_t *targets, int32_t *tokens, int32_t *count,
                              cudaStream_t stream);

} // namespace omnibal::rt::cuda
#endif // RUNTIME_BACKENDS_CUDA_KERNELS_ROWS_H
