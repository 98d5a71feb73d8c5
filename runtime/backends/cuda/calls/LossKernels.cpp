//===- LossKernels.cpp - Losses of tokens and of pairs of answers on the device ---------------===//
#include "runtime/backends/cuda/calls/LogitKernel.h"
#include "runtime/backends/cuda/kernels/CrossEntropy.h"
#include "runtime/backends/cuda/kernels/Preference.h"
#include "runtime/device/calls/BoundLoss.h"

namespace omnibal::rt::cuda {
namespace {

class CrossEntropy final : public DeviceKernel, private BoundCrossEntropy {
public:
  CrossEntropy(CallReader &call, const BoundCall &description, const KernelContext &context)
      : DeviceKernel(description, context), BoundCrossEntropy(call) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    const TensorView &x = views[logits];
    CrossEntropyShape s;
    s.rows = x.shape[0];
    s.width = x.shape[1];
    s.logitsRow = x.strides[0];
    s.gradientRow = dlogits < 0 ? 0 : views[dlogits].strides[0];
    s.type = elementOf(x.dtype);
    s.narrowGradient = dlogits >= 0 && views[dlogits].dtype != x.dtype;
    s.smoothing = terms.smoothing;
    s.z = terms.z;
    return launched(launchCrossEntropy(
        s, x.data, static_cast<const int32_t *>(views[targets].data), nullptr,
        static_cast<float *>(views[loss].data), dlogits < 0 ? nullptr : views[dlogits].data,
        prediction < 0 ? nullptr : static_cast<int32_t *>(views[prediction].data), context.stream));
  }
};

/// Rows without a target have a loss and a gradient of zero.
class LinearCrossEntropy final : public LogitKernel, private BoundLinearCrossEntropy {
public:
  LinearCrossEntropy(CallReader &call, const BoundCall &description, const KernelContext &context)
      : LogitKernel(description, context), BoundLinearCrossEntropy(call) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    auto given = [&](int operand) { return operand < 0 ? nullptr : &views[operand]; };
    const LogitOperands operands{
        &views[hidden], &views[weight], &views[targets], &views[BoundLinearCrossEntropy::scratch],
        given(bias),    given(dhidden), given(dweight),  given(dbias),
        scale};
    return forBlocks(
        operands, {{&views[loss], 0}, {given(prediction), -1}, {operands.dhidden, 0}},
        [&](LogitBlock &block) {
          block.shape.smoothing = terms.smoothing;
          block.shape.z = terms.z;
          block.shape.rowWeights =
              rowWeights < 0 ? nullptr : static_cast<const float *>(views[rowWeights].data);
          return launched(launchCrossEntropy(
              block.shape, block.logits, block.targets, block.tokens,
              static_cast<float *>(views[loss].data), block.slopes,
              prediction < 0 ? nullptr : static_cast<int32_t *>(views[prediction].data),
              context.stream));
        });
  }
};

class PreferenceLoss : public DeviceKernel, protected BoundPreferenceLoss {
public:
  PreferenceLoss(CallReader &call, const BoundCall &description, const KernelContext &context)
      : PreferenceLoss(call, description, context, false) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    auto numbers = [&](int operand) {
      return operand < 0 ? nullptr : static_cast<float *>(views[operand].data);
    };
    const PreferenceShape s{views[losses].shape[0], views[borders].shape[0], beta, smoothing};
    const auto *at = static_cast<const int32_t *>(views[borders].data);
    return launched(dlosses < 0
                        ? launchPreferenceLoss(s, numbers(losses), at, numbers(reference),
                                               numbers(loss), numbers(chosen), numbers(rejected),
                                               numbers(preferred), context.stream)
                        : launchPreferenceGradient(s, numbers(losses), at, numbers(reference),
                                                   numbers(rowWeights), numbers(dlosses),
                                                   context.stream));
  }

protected:
  PreferenceLoss(CallReader &call, const BoundCall &description, const KernelContext &context,
                 bool backward)
      : DeviceKernel(description, context), BoundPreferenceLoss(call, backward) {}
};

class PreferenceLossBackward final : public PreferenceLoss {
public:
  PreferenceLossBackward(CallReader &call, const BoundCall &description,
                         const KernelContext &context)
      : PreferenceLoss(call, description, context, true) {}
};

} // namespace

void addLossKernels(DeviceKernelTable &table) {
  table["cross_entropy"] = createKernelOf<CrossEntropy>;
  table["linear_cross_entropy"] = createKernelOf<LinearCrossEntropy>;
  table["preference_loss"] = createKernelOf<PreferenceLoss>;
  table["preference_loss_backward"] = createKernelOf<PreferenceLossBackward>;
}

} // namespace omnibal::rt::cuda
