//===- MatrixProduct.h - Products of large matrices, block by block ----------------------===//
//
// The right side is packed into panels of a few vectors' columns, [panel][depth][panelCols]; a
// block of the left side is read as it lies, or packed where its lines lie badly for the caches.
// Every value of the result is one sum in the order of the depth, whatever block it lies in.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_HOST_VECTOR_MATRIXPRODUCT_H
#define RUNTIME_BACKENDS_HOST_VECTOR_MATRIXPRODUCT_H

#include "runtime/backends/host/vector/Isa.h"
#include <cstddef>
#include <cstdint>

namespace omnibal::rt {

/// Lines of a matrix in memory: of rows, or of columns where it is transposed.
struct Lines {
  float *data = nullptr;
  int64_t stride = 0; ///< from one line to the next
  bool transposed = false;
};

/// c = alpha * a * b or, with `add`, c += alpha * a * b.
struct ProductBlock {
  Lines a;
  const float *panels = nullptr; ///< of b, from the block's first row of depth on
  int64_t panelStride = 0;       ///< from one panel to the next
  float *c = nullptr;
  int64_t cRow = 0; ///< stride of c's rows; its columns are dense
  int64_t rows = 0, cols = 0, depth = 0;
  float alpha = 1;
  bool add = false;
  float *scratch = nullptr; ///< leftFloats(rows, depth)
};

struct ProductTable {
  int64_t panelCols; ///< columns of a panel
  /// Packs `depth` x `cols` of b; the last panel is filled up with zeros.
  void (*pack)(const Lines &b, int64_t depth, int64_t cols, float *panels);
  int64_t (*leftFloats)(int64_t rows, int64_t depth);
  void (*run)(const ProductBlock &);
  /// sums[l] += the sum of x[i * row + l] over i < rows, for l < 16, one after the other.
  void (*addColumns)(const float *x, int64_t row, int64_t rows, double *sums);
};
OMNIBAL_DECLARE_VECTOR_TABLE(ProductTable, productTable)

} // namespace omnibal::rt
#endif // RUNTIME_BACKENDS_HOST_VECTOR_MATRIXPRODUCT_H
