//===- MatrixKernels.cpp - `gemm`, `cross_entropy`, `linear_cross_entropy` on the device
//-------===//
#include "runtime/backends/cuda/KernelTable.h"
#include "runtime/backends/cuda/cublas/Product.h"
#include "runtime/backends/cuda/kernels/CrossEntropy.h"
#include "runtime/backends/cuda/kernels/Gemm.h"
#include "runtime/backends/cuda/kernels/Reduce.h"
#include <algorithm>

namespace omnibal::rt::cuda {
namespace {

class GemmKernel final : public DeviceKernel {
public:
  GemmKernel(SiteReader &site, const KernelSite &description, const KernelContext &context)
      : DeviceKernel(description, context) {
    a = site.operand("a");
    b = site.operand("b");
    c = site.operand("c");
    bias = site.optionalOperand("bias");
    residual = site.optionalOperand("residual");
    pre = site.optionalOperand("pre");
    accumulate = site.flag("accumulate", false);
    alpha = static_cast<float>(site.number("alpha", 1));
    activation = static_cast<GemmActivation>(
        site.choice("activation", {"none", "gelu", "gelu_tanh", "silu", "quick_gelu", "relu"}));
    if (accumulate &&
        (activation != GemmActivation::None || bias >= 0 || residual >= 0 || pre >= 0))
      site.fail("'accumulate' cannot be combined with bias, residual, pre or an activation");
  }

  Status run(std::span<const TensorView> views, int64_t, int64_t, ThreadPool &) override {
    OMNIBAL_RETURN_IF_ERROR(checkShapes(views));
    const TensorView &vc = views[c];
    const int r = vc.rank;
    GemmShape s;
    s.m = vc.shape[r - 2];
    s.n = vc.shape[r - 1];
    s.k = views[a].shape[r - 1];
    for (int d = 0; d < r - 2; ++d)
      s.batch[s.batchRank++] = vc.shape[d];
    s.a = operandOf(views[a]);
    s.b = operandOf(views[b]);
    s.c = operandOf(vc);
    if (residual >= 0)
      s.residual = operandOf(views[residual]);
    if (pre >= 0)
      s.pre = operandOf(views[pre]);
    if (bias >= 0)
      s.biasStride = views[bias].strides[0];
    s.alpha = alpha;
    s.accumulate = accumulate;
    s.activation = activation;
    s.type = elementOf(views[a].dtype);
    s.resultType = elementOf(vc.dtype);
    auto data = [&](int index) { return index < 0 ? nullptr : views[index].data; };
    return multiply(s,
                    {views[a].data, views[b].data, vc.data, data(bias), data(residual), data(pre)});
  }

private:
  static GemmShape::Operand operandOf(const TensorView &v) {
    GemmShape::Operand o;
    o.strides = {v.strides[v.rank - 2], v.strides[v.rank - 1]};
    for (int d = 0; d < v.rank - 2; ++d)
      o.batch[d] = v.strides[d];
    return o;
  }

  Status checkShapes(std::span<const TensorView> views) const {
    const TensorView &va = views[a], &vb = views[b], &vc = views[c];
    const int r = vc.rank;
    if (r < 2 || r > GemmShape::maxBatchRank + 2)
      return bad("operand 'c' has " + std::to_string(r) + " dimensions");
    for (auto [index, name] :
         {std::pair{a, "a"}, {b, "b"}, {c, "c"}, {residual, "residual"}, {pre, "pre"}})
      if (index >= 0)
        OMNIBAL_RETURN_IF_ERROR(expectFloat(views[index], name, r));
    OMNIBAL_RETURN_IF_ERROR(sameType(vb, "b", va, "a"));
    OMNIBAL_RETURN_IF_ERROR(sameType(vc, "c", va, "a", true));
    for (auto [index, name] : {std::pair{residual, "residual"}, {pre, "pre"}})
      if (index >= 0)
        OMNIBAL_RETURN_IF_ERROR(sameType(views[index], name, vc, "c"));
    bool fits = va.shape[r - 2] == vc.shape[r - 2] && vb.shape[r - 1] == vc.shape[r - 1] &&
                va.shape[r - 1] == vb.shape[r - 2];
    for (int i = 0; i < r - 2; ++i)
      fits = fits && va.shape[i] == vc.shape[i] && vb.shape[i] == vc.shape[i];
    if (!fits)
      return bad("the shapes of a, b and c do not fit together");
    if (bias >= 0) {
      OMNIBAL_RETURN_IF_ERROR(expectFloat(views[bias], "bias", 1));
      OMNIBAL_RETURN_IF_ERROR(sameType(views[bias], "bias", va, "a"));
      if (views[bias].shape[0] != vc.shape[r - 1])
        return bad("operand 'bias' has " + std::to_string(views[bias].shape[0]) + " values for " +
                   std::to_string(vc.shape[r - 1]) + " columns");
    }
    if (residual >= 0)
      OMNIBAL_RETURN_IF_ERROR(same(views[residual], "residual", vc, "c"));
    if (pre >= 0)
      OMNIBAL_RETURN_IF_ERROR(same(views[pre], "pre", vc, "c"));
    return Status::ok();
  }

  int a, b, c, bias, residual, pre;
  bool accumulate;
  float alpha;
  GemmActivation activation;
};

class CrossEntropy final : public DeviceKernel {
public:
  CrossEntropy(SiteReader &site, const KernelSite &description, const KernelContext &context)
      : DeviceKernel(description, context), logits(site.operand("logits")),
        targets(site.operand("targets")), loss(site.operand("loss")),
        dlogits(site.optionalOperand("dlogits")), prediction(site.optionalOperand("prediction")) {}

  Status run(std::span<const TensorView> views, int64_t, int64_t, ThreadPool &) override {
    const TensorView &x = views[logits];
    OMNIBAL_RETURN_IF_ERROR(expectFloat(x, "logits", 2));
    const int64_t rows = x.shape[0], width = x.shape[1];
    OMNIBAL_RETURN_IF_ERROR(expectList(views[targets], "targets", DType::I32, rows));
    OMNIBAL_RETURN_IF_ERROR(expectList(views[loss], "loss", DType::F32, rows));
    if (prediction >= 0)
      OMNIBAL_RETURN_IF_ERROR(expectList(views[prediction], "prediction", DType::I32, rows));
    if (dlogits >= 0) {
      OMNIBAL_RETURN_IF_ERROR(expectFloat(views[dlogits], "dlogits", 2));
      OMNIBAL_RETURN_IF_ERROR(sameType(x, "logits", views[dlogits], "dlogits", true));
      OMNIBAL_RETURN_IF_ERROR(same(views[dlogits], "dlogits", x, "logits"));
    }
    for (int operand : {logits, dlogits})
      if (operand >= 0 && width > 1 && views[operand].strides[1] != 1)
        return bad("rows of logits and dlogits must be dense");
    CrossEntropyShape s;
    s.rows = rows;
    s.width = width;
    s.logitsRow = x.strides[0];
    s.gradientRow = dlogits < 0 ? 0 : views[dlogits].strides[0];
    s.type = elementOf(x.dtype);
    s.narrowGradient = dlogits >= 0 && views[dlogits].dtype != x.dtype;
    return launched(launchCrossEntropy(
        s, x.data, static_cast<const int32_t *>(views[targets].data), nullptr,
        static_cast<float *>(views[loss].data), dlogits < 0 ? nullptr : views[dlogits].data,
        prediction < 0 ? nullptr : static_cast<int32_t *>(views[prediction].data), context.stream));
  }

private:
  int logits, targets, loss, dlogits, prediction;
};

/// Blocks of rows in the scratch operand: logits, loss and gradient, gradients of weight, hidden
/// and bias. The gradient of the logits takes their place; float32 logits of bfloat16 operands keep
/// theirs, and the gradient lies behind them in bfloat16, as the products want it. Rows without a
/// target take part with a gradient of zero: the host does not know them without waiting for the
/// device.
class LinearCrossEntropy final : public DeviceKernel {
public:
  LinearCrossEntropy(SiteReader &site, const KernelSite &description, const KernelContext &context)
      : DeviceKernel(description, context) {
    hidden = site.operand("hidden");
    weight = site.operand("weight");
    targets = site.operand("targets");
    loss = site.operand("loss");
    scratch = site.operand("scratch");
    bias = site.optionalOperand("bias");
    dhidden = site.optionalOperand("dhidden");
    dweight = site.optionalOperand("dweight");
    dbias = site.optionalOperand("dbias");
    prediction = site.optionalOperand("prediction");
    scale = static_cast<float>(site.number("scale", 1));
  }

  Status run(std::span<const TensorView> views, int64_t, int64_t, ThreadPool &) override {
    OMNIBAL_RETURN_IF_ERROR(checkShapes(views));
    const int64_t rows = views[hidden].shape[0], block = rowsOfBlock(views);
    if (rows > 0 && block == 0)
      return bad("operand 'scratch' cannot hold the logits of a single token");
    for (int64_t begin = 0; begin < rows; begin += block)
      OMNIBAL_RETURN_IF_ERROR(runBlock(views, begin, std::min(block, rows - begin), block));
    return Status::ok();
  }

private:
  /// A matrix in memory with its element type.
  struct Matrix {
    void *data;
    RowStrides strides;
    DType type;
    Matrix turned() const { return {data, {strides.col, strides.row}, type}; }
  };
  static Matrix matrixOf(const TensorView &v, int64_t row = 0) {
    return {static_cast<std::byte *>(v.data) + row * v.strides[0] * byteSize(v.dtype),
            {v.strides[0], v.strides[1]},
            v.dtype};
  }

  bool gradients() const { return dhidden >= 0 || dweight >= 0 || dbias >= 0; }
  /// Whether the gradient of the logits has a place of its own.
  bool apart(std::span<const TensorView> views) const {
    return gradients() && views[scratch].dtype != views[hidden].dtype;
  }
  int64_t rowsOfBlock(std::span<const TensorView> views) const {
    const TensorView &memory = views[scratch];
    if (!apart(views))
      return memory.shape[0];
    const int64_t row = memory.shape[1] * (byteSize(memory.dtype) + byteSize(DType::BF16));
    const int64_t bytes =
        memory.elements() * byteSize(memory.dtype) - 16; // the gradient's alignment
    return row > 0 ? std::max<int64_t>(0, bytes / row) : memory.shape[0];
  }

  /// c = scale a b (+ bias), or c += scale a b.
  Status product(int64_t m, int64_t n, int64_t k, const Matrix &a, const Matrix &b, const Matrix &c,
                 const TensorView *added, bool accumulate) const {
    GemmShape s;
    s.m = m;
    s.n = n;
    s.k = k;
    s.a.strides = a.strides;
    s.b.strides = b.strides;
    s.c.strides = c.strides;
    s.alpha = scale;
    s.accumulate = accumulate;
    s.type = elementOf(a.type);
    s.resultType = elementOf(c.type);
    if (added)
      s.biasStride = added->strides[0];
    return multiply(s, {a.data, b.data, c.data, added ? added->data : nullptr, nullptr, nullptr});
  }

  Status runBlock(std::span<const TensorView> views, int64_t begin, int64_t rows,
                  int64_t block) const {
    const int64_t features = views[hidden].shape[1], width = views[weight].shape[0];
    const TensorView &memory = views[scratch];
    const Matrix logits{memory.data, {width, 1}, memory.dtype};
    Matrix slopes = logits;
    if (apart(views)) {
      const int64_t bytes = (block * width * byteSize(memory.dtype) + 15) / 16 * 16;
      slopes = {static_cast<std::byte *>(memory.data) + bytes, {width, 1}, DType::BF16};
    }
    const Matrix inputs = matrixOf(views[hidden], begin), classes = matrixOf(views[weight]);
    OMNIBAL_RETURN_IF_ERROR(product(rows, width, features, inputs, classes.turned(), logits,
                                    bias < 0 ? nullptr : &views[bias], false));
    CrossEntropyShape s;
    s.rows = rows;
    s.width = s.logitsRow = s.gradientRow = width;
    s.type = elementOf(logits.type);
    s.narrowGradient = slopes.type != logits.type;
    OMNIBAL_RETURN_IF_ERROR(launched(launchCrossEntropy(
        s, logits.data, static_cast<const int32_t *>(views[targets].data) + begin, nullptr,
        static_cast<float *>(views[loss].data) + begin, gradients() ? slopes.data : nullptr,
        prediction < 0 ? nullptr : static_cast<int32_t *>(views[prediction].data) + begin,
        context.stream)));
    if (dweight >= 0)
      OMNIBAL_RETURN_IF_ERROR(product(width, features, rows, slopes.turned(), inputs,
                                      matrixOf(views[dweight]), nullptr, true));
    if (dhidden >= 0)
      OMNIBAL_RETURN_IF_ERROR(product(rows, features, width, slopes, classes,
                                      matrixOf(views[dhidden], begin), nullptr, false));
    if (dbias < 0)
      return Status::ok();
    ReduceShape sum;
    sum.strides.append(rows, 0, width);
    sum.strides.append(width, views[dbias].strides[0], 1);
    sum.accumulate = true;
    sum.from = elementOf(slopes.type);
    sum.to = elementOf(views[dbias].dtype);
    return launched(launchReduce(sum, views[dbias].data, slopes.data, context.stream));
  }

  Status checkShapes(std::span<const TensorView> views) const {
    const TensorView &vh = views[hidden], &vw = views[weight], &vs = views[scratch];
    OMNIBAL_RETURN_IF_ERROR(expectFloat(vh, "hidden", 2));
    OMNIBAL_RETURN_IF_ERROR(expectFloat(vw, "weight", 2));
    OMNIBAL_RETURN_IF_ERROR(sameType(vw, "weight", vh, "hidden"));
    OMNIBAL_RETURN_IF_ERROR(expectFloat(vs, "scratch", 2));
    OMNIBAL_RETURN_IF_ERROR(sameType(vs, "scratch", vh, "hidden", true));
    if (vh.shape[1] != vw.shape[1] || vs.shape[1] != vw.shape[0])
      return bad("the shapes of hidden, weight and scratch do not fit together");
    if (vs.shape[0] > 1 && (vs.strides[1] != 1 || vs.strides[0] != vs.shape[1]))
      return bad("operand 'scratch' must be dense");
    OMNIBAL_RETURN_IF_ERROR(expectList(views[targets], "targets", DType::I32, vh.shape[0]));
    OMNIBAL_RETURN_IF_ERROR(expectList(views[loss], "loss", DType::F32, vh.shape[0]));
    if (prediction >= 0)
      OMNIBAL_RETURN_IF_ERROR(expectList(views[prediction], "prediction", DType::I32, vh.shape[0]));
    for (auto [index, name, like, likeName] :
         {std::tuple{dhidden, "dhidden", hidden, "hidden"}, {dweight, "dweight", weight, "weight"}})
      if (index >= 0) {
        OMNIBAL_RETURN_IF_ERROR(expectFloat(views[index], name, 2));
        OMNIBAL_RETURN_IF_ERROR(sameType(views[index], name, vh, "hidden", true));
        OMNIBAL_RETURN_IF_ERROR(same(views[index], name, views[like], likeName));
      }
    for (auto [index, name] : {std::pair{bias, "bias"}, {dbias, "dbias"}})
      if (index >= 0) {
        OMNIBAL_RETURN_IF_ERROR(expectFloat(views[index], name, 1));
        OMNIBAL_RETURN_IF_ERROR(sameType(views[index], name, vh, "hidden", index == dbias));
        if (views[index].shape[0] != vw.shape[0])
          return bad("operand '" + std::string(name) + "' has " +
                     std::to_string(views[index].shape[0]) + " values for " +
                     std::to_string(vw.shape[0]) + " classes");
      }
    return Status::ok();
  }

  int hidden, weight, targets, loss, scratch, bias, dhidden, dweight, dbias, prediction;
  float scale;
};

} // namespace

void addMatrixKernels(DeviceKernelTable &table) {
  table["gemm"] = createKernelOf<GemmKernel>;
  table["cross_entropy"] = createKernelOf<CrossEntropy>;
  table["linear_cross_entropy"] = createKernelOf<LinearCrossEntropy>;
}

} // namespace omnibal::rt::cuda
