//===- CrossEntropyKernels.cpp - `cross_entropy` and `linear_cross_entropy` --------------===//
#include "runtime/backends/host/kernels/LogitBlocks.h"
#include "runtime/backends/host/vector/Rows.h"
#include "runtime/device/calls/BoundLoss.h"
#include <cmath>
#include <numeric>

namespace omnibal::rt {
namespace {

struct RowLoss {
  float loss;
  int32_t prediction;
};

/// Loss of one dense row; with `gradient` (may be the row) also its gradient: softmax minus one-hot
/// where there are no further terms.
RowLoss rowLoss(const float *logits, int64_t width, int64_t target, const LossTerms &terms,
                float *gradient) {
  float top;
  int64_t arg;
  rowTable().largest(logits, width, &top, &arg);
  const float at = logits[target];
  const float mean = terms.smoothing > 0
                         ? static_cast<float>(std::accumulate(logits, logits + width, 0.0) /
                                              static_cast<double>(width))
                         : at;
  const float sum = gradient ? rowTable().expAndSum(logits, gradient, width, top)
                             : rowTable().sumExp(logits, width, top);
  const float norm = top + std::log(sum);
  if (gradient) {
    rowTable().scale(gradient, width, (1 + 2 * terms.z * norm) / sum);
    if (terms.smoothing > 0)
      for (int64_t i = 0; i < width; ++i)
        gradient[i] -= terms.smoothing / static_cast<float>(width);
    gradient[target] -= 1 - terms.smoothing;
  }
  float loss = top - at + std::log(sum);
  if (terms.smoothing > 0)
    loss += terms.smoothing * (at - mean);
  if (terms.z > 0)
    loss += terms.z * norm * norm;
  return {loss, static_cast<int32_t>(arg)};
}

class CrossEntropy final : public HostKernel, private BoundCrossEntropy {
public:
  CrossEntropy(CallReader &call, const BoundCall &description)
      : HostKernel(description), BoundCrossEntropy(call) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    const TensorView &x = views[logits];
    const int64_t rows = x.shape[0], width = x.shape[1];
    OMNIBAL_RETURN_IF_ERROR(checkTargets(*this, views[targets], width));
    forLossRows(pool, rows, width, [&](int64_t i) {
      const int32_t target = intAt(views[targets], i);
      float *gradient =
          dlogits < 0 ? nullptr : dataOf<float>(views[dlogits]) + i * views[dlogits].strides[0];
      RowLoss result{0, -1};
      if (target >= 0)
        result = rowLoss(dataOf<float>(x) + i * x.strides[0], width, target, terms, gradient);
      else if (gradient)
        std::fill_n(gradient, width, 0.f);
      dataOf<float>(views[loss])[i * views[loss].strides[0]] = result.loss;
      if (prediction >= 0)
        dataOf<int32_t>(views[prediction])[i * views[prediction].strides[0]] = result.prediction;
    });
    return Status::ok();
  }
};

class LinearCrossEntropy final : public HostKernel, private BoundLinearCrossEntropy {
public:
  LinearCrossEntropy(CallReader &call, const BoundCall &description)
      : HostKernel(description), BoundLinearCrossEntropy(call) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &pool) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    OMNIBAL_RETURN_IF_ERROR(checkTargets(*this, views[targets], views[weight].shape[0]));
    const TensorView &vl = views[loss];
    for (int64_t i = 0; i < views[hidden].shape[0]; ++i) {
      dataOf<float>(vl)[i * vl.strides[0]] = 0;
      if (prediction >= 0)
        dataOf<int32_t>(views[prediction])[i * views[prediction].strides[0]] = -1;
    }
    auto given = [&](int operand) { return operand < 0 ? nullptr : &views[operand]; };
    const LogitOperands operands{&views[hidden],  &views[weight], &views[targets],
                                 &views[scratch], given(bias),    given(dhidden),
                                 given(dweight),  given(dbias),   scale};
    const LogitBlocks blocks(operands, pool);
    return blocks.run(*this, [&](std::span<const int64_t> tokens) {
      forLossRows(pool, static_cast<int64_t>(tokens.size()), blocks.width,
                  [&](int64_t r) { finishRow(views, tokens[r], blocks.logits(r), blocks.width); });
    });
  }

private:
  void finishRow(std::span<const TensorView> views, int64_t token, float *row,
                 int64_t width) const {
    const TensorView &vl = views[loss];
    const RowLoss result =
        rowLoss(row, width, intAt(views[targets], token), terms, gradients() ? row : nullptr);
    if (rowWeights >= 0 && gradients())
      rowTable().scale(row, width, floatAt(views[rowWeights], token));
    dataOf<float>(vl)[token * vl.strides[0]] = result.loss;
    if (prediction >= 0)
      dataOf<int32_t>(views[prediction])[token * views[prediction].strides[0]] = result.prediction;
  }
};

} // namespace

void addCrossEntropyKernels(KernelTable &table) {
  table["cross_entropy"] = createKernel<CrossEntropy>;
  table["linear_cross_entropy"] = createKernel<LinearCrossEntropy>;
}

} // namespace omnibal::rt
