//===- Gemm.h - Matrix products through oneDNN -------------------------------------------===//
//
// oneDNN's sgemm, single-threaded per tile on our own threads, plus our vectorised epilogue on the
// tile while it is in cache. Measured on a Zen 4 against matmul primitives with post-ops: the same
// 100-115 GFLOP/s a thread on training shapes and more on small tiles, without generating code
// for each of the row counts that vary from micro-batch to micro-batch (0.2-0.5 ms and some memory
// each). The same call exists in oneDNN 2 and 3.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_BACKENDS_HOST_GEMM_H
#define RUNTIME_BACKENDS_HOST_GEMM_H

#include "runtime/backends/host/vector/Epilogue.h"
#include "runtime/core/Status.h"
#include "runtime/core/ThreadPool.h"
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

/// Whether the strides suit sgemm: one is 1, the other at least the length of a line.
bool isDense(const Matrix &matrix);

/// c = alpha * a * b, or += with `accumulate`, on the calling thread. All three isDense().
Status multiply(const Matrix &a, const Matrix &b, const Matrix &c, float alpha, bool accumulate);

/// A product with what follows it. Strides of residual, pre and at are free; null = absent.
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

/// Brings c to unit column stride; true if that meant transposing everything (a and b change
/// sides).
bool normalise(Product &product);
/// `copies`: products of this shape that run beside it.
Tiling chooseTiling(const Product &product, int64_t copies);
/// Computes one tile of a normalised product. `scratch` takes the turned part of a transposed b
/// (where it fits) and the tile itself if an activation must not overwrite a residual that lies in
/// c.
Status multiplyTile(const Product &product, const Tiling &tiling, int64_t tile,
                    std::span<float> scratch);
std::span<float> scratchOf(ThreadPool &pool, int worker);
/// The whole product on the pool.
Status multiply(Product product, ThreadPool &pool);

} // namespace omnibal::rt
#endif // RUNTIME_BACKENDS_HOST_GEMM_H
