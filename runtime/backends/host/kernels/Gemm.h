//===- Gemm.h - Matrix products on the threads of a rank ---------------------------------===//
//
// The right side is packed once for all rows, tiles of the result are shared among the threads, and
// the vectorized epilogue follows on a tile while it is in cache. The inner loops are our own
// (vector/MatrixProduct.cpp); docs/performance.md compares them with libraries.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_HOST_KERNELS_GEMM_H
#define RUNTIME_BACKENDS_HOST_KERNELS_GEMM_H

#include "runtime/backends/host/vector/Epilogue.h"
#include "runtime/support/Status.h"
#include "runtime/support/ThreadPool.h"
#include <cstdint>
#include <span>

namespace omnibal::rt {

/// A matrix in memory; one of the strides is 1 (or its dimension has at most one element).
struct Matrix {
  float *data = nullptr;
  int64_t rows = 0, cols = 0, rowStride = 0, colStride = 0;
  Matrix transposed() const { return {data, cols, rows, colStride, rowStride}; }
  Matrix window(int64_t row, int64_t col, int64_t height, int64_t width) const {
    return {data + row * rowStride + col * colStride, height, width, rowStride, colStride};
  }
};

/// True if the matrix consists of dense lines that do not overlap: rows or columns.
bool isDense(const Matrix &matrix);

/// A product with what follows it: c = alpha * a * b, or += with `accumulate`. All three isDense().
/// Strides of residual, pre and at are free; null = absent.
struct Product {
  Matrix a, b, c;
  float alpha = 1;
  bool accumulate = false;
  Activation activation = Activation::None;
  const float *bias = nullptr;
  int64_t biasRowStride = 0, biasColStride = 1;
  Matrix residual, pre;
  Matrix at; ///< the product is multiplied by the activation's derivative there
};

/// How a product is cut into tiles; depends on its shape only.
struct Tiling {
  int64_t rows = 1, cols = 1;         ///< of a tile
  int64_t rowTiles = 1, colTiles = 1; ///< number of tiles
  int64_t tasks() const { return rowTiles * colTiles; }
};

/// Brings c to unit column stride; returns true if that meant transposing everything (a and b
/// change sides).
bool normalize(Product &product);
/// Chooses a tiling; `copies` is the number of products of this shape that run at the same time.
Tiling chooseTiling(const Product &product, int64_t copies);
/// Computes one tile of a normalized product. `scratch` takes packed parts of a and b, and the tile
/// itself if an activation must not overwrite a residual that lies in c. `panels`: the whole packed
/// b, where it is at hand.
Status multiplyTile(const Product &product, const Tiling &tiling, int64_t tile,
                    std::span<float> scratch, const float *panels = nullptr);
std::span<float> scratchOf(ThreadPool &pool, int worker);
/// Computes the whole product on the pool.
Status multiply(Product product, ThreadPool &pool);

} // namespace omnibal::rt
#endif // RUNTIME_BACKENDS_HOST_KERNELS_GEMM_H
