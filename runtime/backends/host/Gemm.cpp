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
  std::swap(p.biasRowStride, p.biasColStride);
  return true;
}

Tiling chooseTiling(const Product &p, int64_t copies) {
  // Packing a transposed right side costs most, so its tiles are higher. Tiles shrink while there
  // are too few to share among threads and each is worth more than a few ten microseconds.
  bool transposedB = formOf(p.b).transposed == 'T';
  int64_t rowLimit = transposedB ? 256 : 128, colLimit = 512;
  const int64_t minRows = transposedB ? 128 : 64, enough = 16;
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

Status multiplyTile(const Product &p, const Tiling &tiling, int64_t tile, float *scratch) {
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
      target = {scratch, rows, cols, cols, 1};
    }
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
  e.activation = p.activation;
  epilogueTable().apply(e);
  return Status::ok();
}

Status multiply(Product product, ThreadPool &pool) {
  if (product.c.rows == 0 || product.c.cols == 0)
    return Status::ok();
  normalise(product);
  Tiling tiling = chooseTiling(product, 1);
  std::atomic<bool> failed{false};
  Status firstError;
  pool.parallelFor(tiling.tasks(), [&](int64_t tile, int worker) {
    Status status = multiplyTile(product, tiling, tile, static_cast<float *>(pool.scratch(worker)));
    if (!status && !failed.exchange(true))
      firstError = status;
  });
  return firstError;
}

} // namespace omnibal::rt
