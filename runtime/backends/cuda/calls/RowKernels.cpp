//===- RowKernels.cpp - Embedding, image merge and their gradients on the device -------------===//
#include "runtime/backends/cuda/calls/KernelTable.h"
#include "runtime/backends/cuda/kernels/Copy.h"
#include "runtime/backends/cuda/kernels/Order.h"
#include "runtime/backends/cuda/kernels/Rows.h"

namespace omnibal::rt::cuda {
namespace {

RowStrides rowsOf(const TensorView &v) { return {v.strides[0], v.strides[1]}; }
const int32_t *indexOf(const TensorView &v) { return static_cast<const int32_t *>(v.data); }

class RowKernel : public DeviceKernel {
protected:
  using DeviceKernel::DeviceKernel;

  /// A float32 or bfloat16 matrix of `rows` and `cols` (-1: any).
  Status expectMatrix(const TensorView &v, const char *name, int64_t rows, int64_t cols) const {
    OMNIBAL_RETURN_IF_ERROR(expectFloat(v, name, 2));
    if ((rows >= 0 && v.shape[0] != rows) || (cols >= 0 && v.shape[1] != cols))
      return bad("operand '" + std::string(name) + "' has " + std::to_string(v.shape[0]) + " x " +
                 std::to_string(v.shape[1]) + " values; " + std::to_string(rows) + " x " +
                 std::to_string(cols) + " were expected (-1: any)");
    return Status::ok();
  }

  /// to[index[i]] += from[i] in the order of i, where index[i] is not `left`.
  Status addRows(std::span<const TensorView> views, const TensorView &from, const TensorView &index,
                 const TensorView &to, int64_t left = -1) const {
    const int64_t rows = from.shape[0];
    if (rows == 0 || from.shape[1] == 0)
      return Status::ok();
    OMNIBAL_ASSIGN_OR_RETURN(Scratch memory, scratch(views, workspace, orderBytes(rows)));
    auto *places = reinterpret_cast<int32_t *>(memory.data);
    OMNIBAL_RETURN_IF_ERROR(launched(launchOrder(rows, indexOf(index), places, context.stream)));
    AddRowsShape s;
    s.rows = rows;
    s.cols = from.shape[1];
    s.out = rowsOf(to);
    s.from = rowsOf(from);
    s.outType = elementOf(to.dtype);
    s.fromType = elementOf(from.dtype);
    s.left = static_cast<int32_t>(left);
    return launched(launchAddRows(s, indexOf(index), places, from.data, to.data, context.stream));
  }

  int workspace = -1;
};

class Embedding final : public RowKernel {
public:
  Embedding(CallReader &call, const BoundCall &description, const KernelContext &context)
      : RowKernel(description, context), table(call.operand("table")), ids(call.operand("ids")),
        out(call.operand("out")) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    const TensorView &vt = views[table], &vo = views[out];
    OMNIBAL_RETURN_IF_ERROR(expectMatrix(vt, "table", -1, -1));
    OMNIBAL_RETURN_IF_ERROR(expectMatrix(vo, "out", -1, vt.shape[1]));
    OMNIBAL_RETURN_IF_ERROR(expectList(views[ids], "ids", DType::I32, vo.shape[0]));
    SelectShape s;
    s.rows = vo.shape[0];
    s.cols = vo.shape[1];
    s.out = rowsOf(vo);
    s.chosen = rowsOf(vt);
    s.type = elementOf(vo.dtype);
    s.chosenType = elementOf(vt.dtype);
    OMNIBAL_RETURN_IF_ERROR(sameType(vt, "table", vo, "out", true));
    return launched(
        launchSelectRows(s, indexOf(views[ids]), vt.data, nullptr, vo.data, context.stream));
  }

private:
  int table, ids, out;
};

class EmbeddingBackward final : public RowKernel {
public:
  EmbeddingBackward(CallReader &call, const BoundCall &description, const KernelContext &context)
      : RowKernel(description, context), dout(call.operand("dout")), ids(call.operand("ids")),
        dtable(call.operand("dtable")), padding(call.integer("padding", -1)) {
    workspace = call.optionalOperand("workspace");
  }

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    OMNIBAL_RETURN_IF_ERROR(expectMatrix(views[dout], "dout", -1, -1));
    OMNIBAL_RETURN_IF_ERROR(expectMatrix(views[dtable], "dtable", -1, views[dout].shape[1]));
    OMNIBAL_RETURN_IF_ERROR(expectList(views[ids], "ids", DType::I32, views[dout].shape[0]));
    OMNIBAL_RETURN_IF_ERROR(sameType(views[dtable], "dtable", views[dout], "dout", true));
    return addRows(views, views[dout], views[ids], views[dtable], padding);
  }

private:
  int dout, ids, dtable;
  int64_t padding; ///< the row that gets nothing, or -1
};

class ImageMerge final : public RowKernel {
public:
  ImageMerge(CallReader &call, const BoundCall &description, const KernelContext &context)
      : RowKernel(description, context), text(call.operand("text")),
        features(call.operand("features")), imageRows(call.operand("image_rows")),
        out(call.operand("out")) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    const TensorView &vo = views[out];
    OMNIBAL_RETURN_IF_ERROR(expectMatrix(vo, "out", -1, -1));
    OMNIBAL_RETURN_IF_ERROR(expectMatrix(views[text], "text", vo.shape[0], vo.shape[1]));
    OMNIBAL_RETURN_IF_ERROR(expectMatrix(views[features], "features", -1, vo.shape[1]));
    OMNIBAL_RETURN_IF_ERROR(expectList(views[imageRows], "image_rows", DType::I32, vo.shape[0]));
    SelectShape s;
    s.rows = vo.shape[0];
    s.cols = vo.shape[1];
    s.out = rowsOf(vo);
    s.chosen = rowsOf(views[features]);
    s.other = rowsOf(views[text]);
    s.type = elementOf(vo.dtype);
    s.chosenType = elementOf(views[features].dtype);
    OMNIBAL_RETURN_IF_ERROR(sameType(views[text], "text", vo, "out"));
    OMNIBAL_RETURN_IF_ERROR(sameType(views[features], "features", vo, "out", true));
    return launched(launchSelectRows(s, indexOf(views[imageRows]), views[features].data,
                                     views[text].data, vo.data, context.stream));
  }

private:
  int text, features, imageRows, out;
};

class ImageMergeBackward final : public RowKernel {
public:
  ImageMergeBackward(CallReader &call, const BoundCall &description, const KernelContext &context)
      : RowKernel(description, context), dout(call.operand("dout")),
        imageRows(call.operand("image_rows")), dtext(call.optionalOperand("dtext")),
        dfeatures(call.optionalOperand("dfeatures")) {
    workspace = call.optionalOperand("workspace");
  }

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    const TensorView &from = views[dout];
    OMNIBAL_RETURN_IF_ERROR(expectMatrix(from, "dout", -1, -1));
    OMNIBAL_RETURN_IF_ERROR(expectList(views[imageRows], "image_rows", DType::I32, from.shape[0]));
    if (dfeatures >= 0) {
      const TensorView &to = views[dfeatures];
      OMNIBAL_RETURN_IF_ERROR(expectMatrix(to, "dfeatures", -1, from.shape[1]));
      OMNIBAL_RETURN_IF_ERROR(sameType(to, "dfeatures", from, "dout", true));
      FillShape zeros;
      zeros.type = elementOf(to.dtype);
      zeros.strides.append(to.shape[0], to.strides[0], 0);
      zeros.strides.append(to.shape[1], to.strides[1], 0);
      OMNIBAL_RETURN_IF_ERROR(launched(launchFill(zeros, to.data, context.stream)));
      OMNIBAL_RETURN_IF_ERROR(addRows(views, from, views[imageRows], to));
    }
    if (dtext < 0)
      return Status::ok();
    const TensorView &to = views[dtext]; // after dfeatures: it may be dout
    OMNIBAL_RETURN_IF_ERROR(expectMatrix(to, "dtext", from.shape[0], from.shape[1]));
    SelectShape s;
    s.rows = to.shape[0];
    s.cols = to.shape[1];
    s.out = rowsOf(to);
    s.other = rowsOf(from);
    s.type = s.chosenType = elementOf(to.dtype);
    OMNIBAL_RETURN_IF_ERROR(sameType(to, "dtext", from, "dout"));
    return launched(launchSelectRows(s, indexOf(views[imageRows]), nullptr, from.data, to.data,
                                     context.stream));
  }

private:
  int dout, imageRows, dtext, dfeatures;
};

} // namespace

void addRowKernels(DeviceKernelTable &table) {
  table["embedding"] = createKernelOf<Embedding>;
  table["embedding_backward"] = createKernelOf<EmbeddingBackward>;
  table["image_merge"] = createKernelOf<ImageMerge>;
  table["image_merge_backward"] = createKernelOf<ImageMergeBackward>;
}

} // namespace omnibal::rt::cuda
