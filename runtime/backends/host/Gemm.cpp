#include "runtime/backends/host/Gemm.h"
#include <algorithm>
#include <atomic>
#include <cstring>
#include <dlfcn.h>
#include <dnnl.h>

namespace omnibal::rt {
namespace {

/// Distribution packages of oneDNN use OpenMP inside; a calling thread asks for one thread, once.
void limitToOneThread() {
  static const auto setThreads =
      reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  thread_local bool done = false;
  if (!done && setThreads)
    setThreads(1);
  done = true;
}

constexpr int64_t largestTile = 128 * 512; // elements, of a product that is not transposed
constexpr int64_t turnRows = 128;          // rows of a tile from which turning its right side pays

struct Form {
  char transposed;
  int64_t stride;
};

Form formOf(const Matrix &m) {
  bool rowMajor = m.colStride == 1 && (m.rows <= 1 || m.rowStride >= m.cols);
  if (rowMajor || m.cols <= 1)
    // A single column may have any stride between its rows.
    return {'N', std::max<int64_t>(m.rows <= 1 ? m.cols : m.rowStride, 1)};
  return {'T', std::max<int64_t>(m.cols <= 1 ? m.rows : m.colStride, 1)};
}

int64_t roundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Equal parts of at most `limit`, in multiples of 16.
int64_t equalParts(int64_t size, int64_t limit) {
  int64_t parts = std::max<int64_t>(1, (size + limit - 1) / limit);
  return std::max<int64_t>(1, std::min(size, roundUp((size + parts - 1) / parts, 16)));
}

} // namespace

/// to[k][j] = from[j][k] for k < rows, j < cols.
static void turn(const float *from, int64_t fromRow, float *to, int64_t toRow, int64_t rows,
                 int64_t cols) {
  constexpr int64_t side = 16;
  for (int64_t j0 = 0; j0 < cols; j0 += side) {
    const int64_t width = std::min(side, cols - j0);
    for (int64_t k0 = 0; k0 < rows; k0 += side) {
      const int64_t end = std::min(rows, k0 + side);
      for (int64_t k = k0; k < end; ++k) {
        const float *source = from + j0 * fromRow + k;
        float *target = to + k * toRow + j0;
        if (width == side)
          for (int64_t j = 0; j < side; ++j)
            target[j] = source[j * fromRow];
        else
          for (int64_t j = 0; j < width; ++j)
            target[j] = source[j * fromRow];
      }
    }
  }
}

bool isDense(const Matrix &m) {
  if (m.rows == 0 || m.cols == 0)
    return true;
  bool rowMajor = (m.cols <= 1 || m.colStride == 1) &&
                  (m.rows <= 1 || m.rowStride >= std::max<int64_t>(m.cols, 1));
  bool columnMajor = (m.rows <= 1 || m.rowStride == 1) &&
                     (m.cols <= 1 || m.colStride >= std::max<int64_t>(m.rows, 1));
  return rowMajor || columnMajor;
}

Status multiply(const Matrix &a, const Matrix &b, const Matrix &c, float alpha, bool accumulate) {
  if (c.rows == 0 || c.cols == 0)
    return Status::ok();
  if (formOf(c).transposed == 'T')
    return multiply(b.transposed(), a.transposed(), c.transposed(), alpha, accumulate);
  if (a.cols == 0) {
    if (!accumulate)
      for (int64_t i = 0; i < c.rows; ++i)
        std::memset(c.data + i * c.rowStride, 0, c.cols * sizeof(float));
    return Status::ok();
  }
  limitToOneThread();
  Form fa = formOf(a), fb = formOf(b), fc = formOf(c);
  dnnl_status_t status =
      dnnl_sgemm(fa.transposed, fb.transposed, c.rows, c.cols, a.cols, alpha, a.data, fa.stride,
                 b.data, fb.stride, accumulate ? 1.f : 0.f, c.data, fc.stride);
  if (status != dnnl_success)
    return {status == dnnl_out_of_memory ? Code::OutOfMemory : Code::Internal,
            "oneDNN refused a matrix product (status " + std::to_string(status) + ")"};
  return Status::ok();
}

bool normalise(Product &p) {
  if (p.c.colStride == 1 || p.c.cols <= 1 || formOf(p.c).transposed == 'N') {
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
  // A transposed right side is turned once per tile, so its tiles are higher. Tiles shrink while
  // there are too few to share among threads and each is worth more than a few ten microseconds.
  bool transposedB = formOf(p.b).transposed == 'T';
  int64_t rowLimit = transposedB ? 512 : 128, colLimit = transposedB ? 128 : 512;
  const int64_t minRows = transposedB ? turnRows : 64, enough = 16;
  Tiling t;
  for (;;) {
    t.rows = equalParts(p.c.rows, rowLimit);
    t.cols = equalParts(p.c.cols, colLimit);
    t.rowTiles = (p.c.rows + t.rows - 1) / t.rows;
    t.colTiles = (p.c.cols + t.cols - 1) / t.cols;
    if (copies * t.tasks() >= enough || 2.0 * t.rows * t.cols * p.a.cols < 3e6)
      return t;
    if (colLimit > 128 && t.cols > 128)
      colLimit = std::max<int64_t>(128, t.cols / 2);
    else if (t.rows > minRows)
      rowLimit = std::max(minRows, t.rows / 2);
    else
      return t;
  }
}

Status multiplyTile(const Product &p, const Tiling &tiling, int64_t tile,
                    std::span<float> scratch) {
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
  // oneDNN packs a transposed right side 10 % slower than we turn it.
  if (Form form = formOf(b); form.transposed == 'T' && rows >= turnRows &&
                             static_cast<int64_t>(scratch.size()) >= b.rows * cols) {
    turn(b.data, form.stride, scratch.data(), cols, b.rows, cols);
    b = {scratch.data(), b.rows, cols, cols, 1};
  }
  OMNIBAL_RETURN_IF_ERROR(multiply(a, b, target, p.alpha, accumulate));
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
  normalise(product);
  // A transposed right side that fits one thread's scratch is turned once for all tiles.
  std::span<float> callersRest = scratchOf(pool, 0);
  const Matrix b = product.b;
  const Form form = formOf(b);
  if (form.transposed == 'T' && product.c.rows >= 2 * turnRows &&
      b.rows * b.cols + largestTile <= static_cast<int64_t>(callersRest.size())) {
    float *turned = callersRest.data();
    callersRest = callersRest.subspan(b.rows * b.cols);
    constexpr int64_t strip = 64;
    pool.parallelFor((b.cols + strip - 1) / strip, [&](int64_t task, int) {
      const int64_t first = task * strip;
      turn(b.data + first * form.stride, form.stride, turned + first, b.cols, b.rows,
           std::min(strip, b.cols - first));
    });
    product.b = {turned, b.rows, b.cols, b.cols, 1};
  }
  Tiling tiling = chooseTiling(product, 1);
  std::atomic<bool> failed{false};
  Status firstError;
  pool.parallelFor(tiling.tasks(), [&](int64_t tile, int worker) {
    Status status =
        multiplyTile(product, tiling, tile, worker == 0 ? callersRest : scratchOf(pool, worker));
    if (!status && !failed.exchange(true))
      firstError = status;
  });
  return firstError;
}

} // namespace omnibal::rt
