//===- MatrixKernels.cpp - `gemm` on the device -----------------------------------------------===//
#include "runtime/backends/cuda/calls/KernelTable.h"
#include "runtime/backends/cuda/kernels/matrix/Gemm.h"
#include "runtime/backends/cuda/libraries/Libraries.h"
#include "runtime/backends/cuda/libraries/Product.h"
#include "runtime/device/calls/BoundGemm.h"
#include <algorithm>

namespace omnibal::rt::cuda {
namespace {

class GemmKernel final : public DeviceKernel, private BoundGemm {
public:
  GemmKernel(CallReader &call, const BoundCall &description, const KernelContext &context)
      : DeviceKernel(description, context), BoundGemm(call) {
    if (sumA >= 0 || sumB >= 0)
      needPartials(call);
    if (context.libraries)
      context.libraries->expectProducts();
  }

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
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
    if (at >= 0)
      s.at = operandOf(views[at]);
    if (bias >= 0)
      s.biasStride = views[bias].strides[0];
    s.alpha = alpha;
    s.accumulate = accumulate;
    s.activation = static_cast<GemmActivation>(activation);
    s.type = elementOf(views[a].dtype);
    s.resultType = elementOf(vc.dtype);
    auto data = [&](int index) { return index < 0 ? nullptr : views[index].data; };
    GemmData d{views[a].data,  views[b].data, vc.data, data(bias),
               data(residual), data(pre),     data(at)};
    d.sumA = static_cast<float *>(data(sumA));
    d.sumB = static_cast<float *>(data(sumB));
    if (d.sumA || d.sumB)
      d.partials = partials();
    return multiply(s, d);
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
         {std::pair{a, "a"}, {b, "b"}, {c, "c"}, {residual, "residual"}, {pre, "pre"}, {at, "at"}})
      if (index >= 0)
        OMNIBAL_RETURN_IF_ERROR(expectFloat(views[index], name, r));
    OMNIBAL_RETURN_IF_ERROR(sameType(vb, "b", va, "a"));
    OMNIBAL_RETURN_IF_ERROR(sameType(vc, "c", va, "a", true));
    for (auto [index, name] : {std::pair{residual, "residual"}, {pre, "pre"}, {at, "at"}})
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
    for (auto [index, name] : {std::pair{residual, "residual"}, {pre, "pre"}, {at, "at"}})
      if (index >= 0)
        OMNIBAL_RETURN_IF_ERROR(same(views[index], name, vc, "c"));
    if ((sumA >= 0 || sumB >= 0) && r != 2)
      return bad("sums of operands are for products without leading dimensions");
    if (sumA >= 0)
      OMNIBAL_RETURN_IF_ERROR(expectList(views[sumA], "sum_a", DType::F32, vc.shape[0]));
    if (sumB >= 0)
      OMNIBAL_RETURN_IF_ERROR(expectList(views[sumB], "sum_b", DType::F32, vc.shape[1]));
    return Status::ok();
  }
};

} // namespace

void addMatrixKernels(DeviceKernelTable &table) { table["gemm"] = createKernelOf<GemmKernel>; }

} // namespace omnibal::rt::cuda
