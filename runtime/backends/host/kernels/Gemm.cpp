#include "runtime/backends/host/kernels/Gemm.h"
#include "runtime/backends/host/vector/MatrixProduct.h"
#include <algorithm>
#include <atomic>
#include <cstring>

namespace omnibal::rt {
namespace {

constexpr int64_t depthLimit = 384;              // what is summed before it is added to c
constexpr int64_t tileFloats = int64_t{1} << 17; // of scratch for a tile beside shared panels

/// A tile of few rows and many columns has all rows and packs its own columns: nothing is shared.
bool hasLongTiles(const Product &p) { return p.c.rows <= 256 && p.c.cols >= 4096; }

Lines linesOf(const Matrix &m) {
  const bool rowMajor = m.colStride == 1 && (m.rows <= 1 || m.rowStride >= m.cols);
  if (rowMajor || m.cols <= 1)
    // A single column may have any stride between its rows.
    return {m.data, std::max<int64_t>(m.rows <= 1 ? m.cols : m.rowStride, 1), false};
  return {m.data, std::max<int64_t>(m.cols <= 1 ? m.rows : m.colStride, 1), true};
}

int64_t roundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Equal parts of at most `limit`, in multiples of `step`.
int64_t equalParts(int64_t size, int64_t limit, int64_t step) {
  const int64_t parts = std::max<int64_t>(1, (size + limit - 1) / limit);
  return std::max<int64_t>(1, std::min(size, roundUp((size + parts - 1) / parts, step)));
}

/// Parts of the depth are the same for all tiles of a product.
int64_t depthPart(int64_t depth) { return equalParts(depth, depthLimit, 16); }

Product columnsOf(const Product &p, int64_t first, int64_t cols) {
  Product part = p;
  part.b = p.b.window(0, first, p.b.rows, cols);
  for (Matrix *m : {&part.c, &part.residual, &part.pre, &part.at})
    *m = m->window(0, first, m->rows, cols);
  if (p.bias)
    part.bias += first * p.biasColStride;
  return part;
}

/// target (+)= alpha * a * b on this thread; `panels` as in multiplyTile, of these columns on.
Status multiplyBlock(const Matrix &a, const Matrix &b, const Matrix &target, float alpha,
                     bool accumulate, const float *panels, std::span<float> scratch) {
  const ProductTable &table = productTable();
  const int64_t depth = a.cols, part = depthPart(depth);
  if (depth == 0) {
    for (int64_t i = 0; i < target.rows && !accumulate; ++i)
      std::memset(target.data + i * target.rowStride, 0, target.cols * sizeof(float));
    return Status::ok();
  }
  const int64_t left = table.leftFloats(target.rows, part);
  const int64_t right = panels ? 0 : roundUp(target.cols, table.panelCols) * part;
  if (static_cast<int64_t>(scratch.size()) < left + right)
    return {Code::Internal, "a tile of " + std::to_string(target.rows) + " x " +
                                std::to_string(target.cols) + " does not fit the threads' scratch"};
  const Lines linesA = linesOf(a), linesB = linesOf(b);
  ProductBlock block;
  block.c = target.data;
  block.cRow = target.rowStride;
  block.rows = target.rows;
  block.cols = target.cols;
  block.alpha = alpha;
  block.scratch = scratch.data();
  block.panelStride = depth * table.panelCols;
  for (int64_t k = 0; k < depth; k += part) {
    block.depth = std::min(part, depth - k);
    block.add = accumulate || k > 0;
    block.a = linesA;
    block.a.data += k * (linesA.transposed ? linesA.stride : 1);
    if (panels) {
      block.panels = panels + k * table.panelCols;
    } else {
      Lines from = linesB;
      from.data += k * (linesB.transposed ? 1 : linesB.stride);
      float *packed = scratch.data() + left;
      table.pack(from, block.depth, target.cols, packed);
      block.panels = packed;
      block.panelStride = block.depth * table.panelCols;
    }
    table.run(block);
  }
  return Status::ok();
}

/// Packs all of b, several panels a task.
void packShared(const Matrix &b, float *panels, ThreadPool &pool) {
  const ProductTable &table = productTable();
  const int64_t strip = 4 * table.panelCols;
  const Lines lines = linesOf(b);
  pool.parallelFor((b.cols + strip - 1) / strip, [&](int64_t task, int) {
    const int64_t first = task * strip;
    Lines from = lines;
    from.data += first * (lines.transposed ? lines.stride : 1);
    table.pack(from, b.rows, std::min(strip, b.cols - first), panels + first * b.rows);
  });
}

Status multiplyTiles(const Product &product, const float *panels, std::span<float> callersScratch,
                     ThreadPool &pool) {
  const Tiling tiling = chooseTiling(product, 1);
  std::atomic<bool> failed{false};
  Status firstError;
  pool.parallelFor(tiling.tasks(), [&](int64_t tile, int worker) {
    Status status = multiplyTile(product, tiling, tile,
                                 worker == 0 ? callersScratch : scratchOf(pool, worker), panels);
    if (!status && !failed.exchange(true))
      firstError = status;
  });
  return firstError;
}

/// All tiles use one packed right side, which lies at the start of the caller's scratch.
Status multiplyShared(const Product &product, std::span<float> scratch, ThreadPool &pool) {
  packShared(product.b, scratch.data(), pool);
  const int64_t floats = roundUp(product.b.cols, productTable().panelCols) * product.b.rows;
  return multiplyTiles(product, scratch.data(), scratch.subspan(static_cast<size_t>(floats)), pool);
}

bool isPlain(const Product &p) {
  return !p.bias && !p.residual.data && !p.pre.data && !p.at.data &&
         p.activation == Activation::None;
}

/// A sum so long that `room` floats do not hold its right side: part of the depth by part.
Status multiplyDeep(const Product &product, int64_t room, std::span<float> scratch,
                    ThreadPool &pool) {
  const int64_t cols = std::min<int64_t>(product.c.cols, 512), depth = product.b.rows;
  const int64_t part = equalParts(depth, room / roundUp(cols, productTable().panelCols), 16);
  for (int64_t first = 0; first < product.c.cols; first += cols)
    for (int64_t k = 0; k < depth; k += part) {
      const int64_t length = std::min(part, depth - k);
      Product p = columnsOf(product, first, std::min(cols, product.c.cols - first));
      p.a = p.a.window(0, k, p.a.rows, length);
      p.b = p.b.window(k, 0, length, p.b.cols);
      p.accumulate = product.accumulate || k > 0;
      OMNIBAL_RETURN_IF_ERROR(multiplyShared(p, scratch, pool));
    }
  return Status::ok();
}

} // namespace

bool isDense(const Matrix &m) {
  if (m.rows == 0 || m.cols == 0)
    return true;
  bool rowMajor = (m.cols <= 1 || m.colStride == 1) &&
                  (m.rows <= 1 || m.rowStride >= std::max<int64_t>(m.cols, 1));
  bool columnMajor = (m.rows <= 1 || m.rowStride == 1) &&
                     (m.cols <= 1 || m.colStride >= std::max<int64_t>(m.rows, 1));
  return rowMajor || columnMajor;
}

bool normalize(Product &p) {
  if (p.c.colStride == 1 || p.c.cols <= 1 || !linesOf(p.c).transposed) {
    p.c.colStride = 1; // a single column: its stride is never used
    return false;
  }
  Matrix a = p.a;
  p.a = p.b.transposed();
  p.b = a.transposed();
  p.c = p.c.transposed();
  p.c.colStride = 1;
  p.residual = p.residual.transposed();
  p.pre = p.pre.transposed();
  p.at = p.at.transposed();
  std::swap(p.biasRowStride, p.biasColStride);
  return true;
}

Tiling chooseTiling(const Product &p, int64_t copies) {
  // Tiles shrink while there are too few to share among threads and each is worth more than a few
  // ten microseconds. Their columns are whole panels, their rows whole tiles of registers. Low
  // tiles read the right side often, narrow ones the left: so they become smaller in turns.
  constexpr int64_t rowStep = 12, colStep = 32, enough = 16;
  const bool longTiles = hasLongTiles(p);
  int64_t rowLimit = longTiles ? 256 : 96, colLimit = longTiles ? 256 : 512;
  Tiling t;
  for (;;) {
    t.rows = equalParts(p.c.rows, rowLimit, rowStep);
    t.cols = equalParts(p.c.cols, colLimit, colStep);
    t.rowTiles = (p.c.rows + t.rows - 1) / t.rows;
    t.colTiles = (p.c.cols + t.cols - 1) / t.cols;
    if (copies * t.tasks() >= enough || 2.0 * t.rows * t.cols * p.a.cols < 3e6)
      return t;
    if (t.rows > 48)
      rowLimit = std::max<int64_t>(48, t.rows / 2);
    else if (t.cols > 128)
      colLimit = std::max<int64_t>(128, t.cols / 2);
    else if (t.rows > 24)
      rowLimit = std::max<int64_t>(24, t.rows / 2);
    else if (t.cols > 64)
      colLimit = std::max<int64_t>(64, t.cols / 2);
    else
      return t;
  }
}

Status multiplyTile(const Product &p, const Tiling &tiling, int64_t tile, std::span<float> scratch,
                    const float *panels) {
  int64_t row = tile / tiling.colTiles * tiling.rows, col = tile % tiling.colTiles * tiling.cols;
  int64_t rows = std::min(tiling.rows, p.c.rows - row),
          cols = std::min(tiling.cols, p.c.cols - col);
  Matrix a = p.a.window(row, 0, rows, p.a.cols), b = p.b.window(0, col, p.b.rows, cols);
  Matrix c = p.c.window(row, col, rows, cols), target = c;
  Matrix residual = p.residual.window(row, col, rows, cols);
  bool hasResidual = p.residual.data != nullptr, accumulate = p.accumulate;
  if (hasResidual && p.residual.data == p.c.data) {
    bool identical = p.residual.rowStride == p.c.rowStride && p.residual.colStride == 1;
    if (identical && p.activation == Activation::None && !p.pre.data) {
      accumulate = true;
      hasResidual = false;
    } else {
      if (static_cast<int64_t>(scratch.size()) < rows * cols)
        return {Code::Internal, "a tile of " + std::to_string(rows) + " x " + std::to_string(cols) +
                                    " does not fit the threads' scratch"};
      target = {scratch.data(), rows, cols, cols, 1};
      scratch = scratch.subspan(rows * cols);
    }
  }
  OMNIBAL_RETURN_IF_ERROR(multiplyBlock(a, b, target, p.alpha, accumulate,
                                        panels ? panels + col * p.b.rows : nullptr, scratch));
  if (!hasResidual && !p.bias && !p.pre.data && p.activation == Activation::None)
    return Status::ok();
  Epilogue e;
  e.rows = rows;
  e.cols = cols;
  e.source = target.data;
  e.sourceStride = target.rowStride;
  e.c = c.data;
  e.cStride = c.rowStride;
  if (p.bias) {
    e.bias = p.bias + row * p.biasRowStride + col * p.biasColStride;
    e.biasRowStride = p.biasRowStride;
    e.biasColStride = p.biasColStride;
  }
  if (hasResidual) {
    e.residual = residual.data;
    e.residualStride = residual.rowStride;
    e.residualColStride = residual.colStride;
  }
  if (p.pre.data) {
    e.pre = p.pre.window(row, col, rows, cols).data;
    e.preStride = p.pre.rowStride;
    e.preColStride = p.pre.colStride;
  }
  if (p.at.data) {
    e.at = p.at.window(row, col, rows, cols).data;
    e.atStride = p.at.rowStride;
    e.atColStride = p.at.colStride;
  }
  e.activation = p.activation;
  epilogueTable().apply(e);
  return Status::ok();
}

std::span<float> scratchOf(ThreadPool &pool, int worker) {
  return {static_cast<float *>(pool.scratch(worker)), pool.scratchBytes() / sizeof(float)};
}

Status multiply(Product product, ThreadPool &pool) {
  if (product.c.rows == 0 || product.c.cols == 0)
    return Status::ok();
  normalize(product);
  const std::span<float> scratch = scratchOf(pool, 0);
  const int64_t panelCols = productTable().panelCols, depth = product.b.rows;
  const int64_t room = static_cast<int64_t>(scratch.size()) - tileFloats;
  if (depth == 0 || hasLongTiles(product) || room < 8 * panelCols * depthLimit)
    return multiplyTiles(product, nullptr, scratch, pool);
  const int64_t limit = room / depth / panelCols * panelCols;
  if (limit < 8 * panelCols && limit < product.c.cols)
    return isPlain(product) ? multiplyDeep(product, room, scratch, pool)
                            : multiplyTiles(product, nullptr, scratch, pool);
  const int64_t cols = equalParts(product.c.cols, limit, panelCols);
  for (int64_t first = 0; first < product.c.cols; first += cols) {
    const Product part = columnsOf(product, first, std::min(cols, product.c.cols - first));
    OMNIBAL_RETURN_IF_ERROR(multiplyShared(part, scratch, pool));
  }
  return Status::ok();
}

} // namespace omnibal::rt
