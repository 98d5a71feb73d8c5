//===- EmbeddingKernels.cpp - Rows by index: embedding, image merge, and their gradients -===//
//
// Gradients that several rows may add to are split by columns, so each sum has the order of the
// rows.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/host/kernels/HostKernel.h"
#include "runtime/backends/host/vector/Rows.h"
#include <algorithm>
#include <cstring>

namespace omnibal::rt {
namespace {

constexpr int64_t columnStrip = 64;

/// A matrix view with its row pointers; columns may have any stride.
struct Rows {
  float *data;
  int64_t rows, cols, rowStride, colStride;
  explicit Rows(const TensorView &v)
      : data(dataOf<float>(v)), rows(v.shape[0]), cols(v.shape[1]), rowStride(v.strides[0]),
        colStride(v.strides[1]) {}
  float *row(int64_t i) const { return data + i * rowStride; }
};

void copyRow(const Rows &from, int64_t i, const Rows &to, int64_t j, int64_t begin, int64_t end) {
  const float *f = from.row(i);
  float *t = to.row(j);
  if (from.colStride == 1 && to.colStride == 1)
    std::memcpy(t + begin, f + begin, (end - begin) * sizeof(float));
  else
    for (int64_t c = begin; c < end; ++c)
      t[c * to.colStride] = f[c * from.colStride];
}

void zeroRow(const Rows &to, int64_t j, int64_t begin, int64_t end) {
  float *t = to.row(j);
  for (int64_t c = begin; c < end; ++c)
    t[c * to.colStride] = 0;
}

void addRow(const Rows &from, int64_t i, const Rows &to, int64_t j, int64_t begin, int64_t end) {
  const float *f = from.row(i);
  float *t = to.row(j);
  if (from.colStride == 1 && to.colStride == 1)
    rowTable().add(f + begin, t + begin, end - begin);
  else
    for (int64_t c = begin; c < end; ++c)
      t[c * to.colStride] += f[c * from.colStride];
}

int32_t at(const TensorView &ids, int64_t i) { return dataOf<int32_t>(ids)[i * ids.strides[0]]; }

/// Splits n rows of `cols` values among threads.
template <typename Body> void forRows(ThreadPool &pool, int64_t n, int64_t cols, const Body &body) {
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(cols, 1));
  pool.parallelFor((n + grain - 1) / grain, [&](int64_t task, int) {
    for (int64_t i = task * grain; i < std::min(n, (task + 1) * grain); ++i)
      body(i);
  });
}

/// Splits columns among threads, so that sums over rows have one order.
template <typename Body> void forColumns(ThreadPool &pool, int64_t cols, const Body &body) {
  pool.parallelFor((cols + columnStrip - 1) / columnStrip, [&](int64_t task, int) {
    body(task * columnStrip, std::min(cols, (task + 1) * columnStrip));
  });
}

class RowKernel : public HostKernel {
protected:
  using HostKernel::HostKernel;

  /// Checks rank 2 of `view` and its number of rows and columns (-1: any).
  Status checkMatrix(const TensorView &view, const char *name, int64_t rows, int64_t cols) const {
    OMNIBAL_RETURN_IF_ERROR(expect(view, name, 2, DType::F32));
    if ((rows >= 0 && view.shape[0] != rows) || (cols >= 0 && view.shape[1] != cols))
      return bad("operand '" + std::string(name) + "' has shape " + printShape(view) +
                 ", expected [" + (rows < 0 ? "any" : std::to_string(rows)) + ", " +
                 (cols < 0 ? "any" : std::to_string(cols)) + "]");
    return Status::ok();
  }

  /// Checks `rows` integers (-1: any number), each in [low, high).
  Status checkIds(const TensorView &ids, const char *name, int64_t rows, int64_t low,
                  int64_t high) const {
    OMNIBAL_RETURN_IF_ERROR(expect(ids, name, 1, DType::I32));
    if (rows >= 0 && ids.shape[0] != rows)
      return bad("operand '" + std::string(name) + "' has shape " + printShape(ids) + " for " +
                 std::to_string(rows) + " rows");
    for (int64_t i = 0; i < ids.shape[0]; ++i)
      if (at(ids, i) < low || at(ids, i) >= high)
        return bad("'" + std::string(name) + "' has " + std::to_string(at(ids, i)) +
                   " at position " + std::to_string(i) + ", outside [" + std::to_string(low) +
                   ", " + std::to_string(high) + ")");
    return Status::ok();
  }
};

class Embedding final : public RowKernel {
public:
  Embedding(CallReader &call, const BoundCall &description)
      : RowKernel(description), table(call.operand("table")), ids(call.operand("ids")),
        out(call.operand("out")) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    OMNIBAL_RETURN_IF_ERROR(checkMatrix(views[table], "table", -1, -1));
    OMNIBAL_RETURN_IF_ERROR(checkIds(views[ids], "ids", -1, 0, views[table].shape[0]));
    OMNIBAL_RETURN_IF_ERROR(
        checkMatrix(views[out], "out", views[ids].shape[0], views[table].shape[1]));
    const Rows from(views[table]), to(views[out]);
    forRows(pool, to.rows, to.cols,
            [&](int64_t i) { copyRow(from, at(views[ids], i), to, i, 0, to.cols); });
    return Status::ok();
  }

private:
  int table, ids, out;
};

class EmbeddingBackward final : public RowKernel {
public:
  EmbeddingBackward(CallReader &call, const BoundCall &description)
      : RowKernel(description), dout(call.operand("dout")), ids(call.operand("ids")),
        dtable(call.operand("dtable")), padding(call.integer("padding", -1)) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    OMNIBAL_RETURN_IF_ERROR(checkMatrix(views[dtable], "dtable", -1, -1));
    OMNIBAL_RETURN_IF_ERROR(checkIds(views[ids], "ids", -1, 0, views[dtable].shape[0]));
    OMNIBAL_RETURN_IF_ERROR(
        checkMatrix(views[dout], "dout", views[ids].shape[0], views[dtable].shape[1]));
    const Rows from(views[dout]), to(views[dtable]);
    forColumns(pool, to.cols, [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < from.rows; ++i)
        if (const int32_t row = at(views[ids], i); row != padding)
          addRow(from, i, to, row, begin, end);
    });
    return Status::ok();
  }

private:
  int dout, ids, dtable;
  int64_t padding; ///< the row that gets nothing, or -1
};

class ImageMerge final : public RowKernel {
public:
  ImageMerge(CallReader &call, const BoundCall &description)
      : RowKernel(description), text(call.operand("text")), features(call.operand("features")),
        imageRows(call.operand("image_rows")), out(call.operand("out")) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    OMNIBAL_RETURN_IF_ERROR(checkMatrix(views[out], "out", -1, -1));
    const Rows to(views[out]);
    OMNIBAL_RETURN_IF_ERROR(checkMatrix(views[text], "text", to.rows, to.cols));
    OMNIBAL_RETURN_IF_ERROR(checkMatrix(views[features], "features", -1, to.cols));
    const Rows words(views[text]), pictures(views[features]);
    OMNIBAL_RETURN_IF_ERROR(checkIds(views[imageRows], "image_rows", to.rows, -1, pictures.rows));
    forRows(pool, to.rows, to.cols, [&](int64_t i) {
      const int32_t source = at(views[imageRows], i);
      if (source >= 0)
        copyRow(pictures, source, to, i, 0, to.cols);
      else if (words.data != to.data)
        copyRow(words, i, to, i, 0, to.cols);
    });
    return Status::ok();
  }

private:
  int text, features, imageRows, out;
};

class ImageMergeBackward final : public RowKernel {
public:
  ImageMergeBackward(CallReader &call, const BoundCall &description)
      : RowKernel(description), dout(call.operand("dout")), imageRows(call.operand("image_rows")),
        dtext(call.optionalOperand("dtext")), dfeatures(call.optionalOperand("dfeatures")) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    OMNIBAL_RETURN_IF_ERROR(checkMatrix(views[dout], "dout", -1, -1));
    const Rows from(views[dout]);
    const TensorView &rows = views[imageRows];
    int64_t limit = INT32_MAX;
    if (dfeatures >= 0) {
      OMNIBAL_RETURN_IF_ERROR(checkMatrix(views[dfeatures], "dfeatures", -1, from.cols));
      limit = views[dfeatures].shape[0];
    }
    OMNIBAL_RETURN_IF_ERROR(checkIds(rows, "image_rows", from.rows, -1, limit));
    if (dfeatures >= 0) {
      const Rows to(views[dfeatures]);
      forColumns(pool, to.cols, [&](int64_t begin, int64_t end) {
        for (int64_t i = 0; i < to.rows; ++i)
          zeroRow(to, i, begin, end);
        for (int64_t i = 0; i < from.rows; ++i)
          if (at(rows, i) >= 0)
            addRow(from, i, to, at(rows, i), begin, end);
      });
    }
    if (dtext >= 0) { // after dfeatures: dtext may be dout
      OMNIBAL_RETURN_IF_ERROR(checkMatrix(views[dtext], "dtext", from.rows, from.cols));
      const Rows to(views[dtext]);
      forRows(pool, to.rows, to.cols, [&](int64_t i) {
        if (at(rows, i) >= 0)
          zeroRow(to, i, 0, to.cols);
        else if (to.data != from.data)
          copyRow(from, i, to, i, 0, to.cols);
      });
    }
    return Status::ok();
  }

private:
  int dout, imageRows, dtext, dfeatures;
};

} // namespace

void addEmbeddingKernels(KernelTable &table) {
  table["embedding"] = createKernel<Embedding>;
  table["embedding_backward"] = createKernel<EmbeddingBackward>;
  table["image_merge"] = createKernel<ImageMerge>;
  table["image_merge_backward"] = createKernel<ImageMergeBackward>;
}

} // namespace omnibal::rt
