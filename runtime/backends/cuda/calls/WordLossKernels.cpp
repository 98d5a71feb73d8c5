//===- WordLossKernels.cpp - The loss of a head whose words are divided among parts -----------===//
#include "runtime/backends/cuda/calls/LogitKernel.h"
#include "runtime/backends/cuda/kernels/JoinedCrossEntropy.h"
#include "runtime/device/calls/BoundWords.h"

namespace omnibal::rt::cuda {
namespace {

const int32_t *integers(const TensorView &v) { return static_cast<const int32_t *>(v.data); }

JoinedRows joinedOf(const TensorView &statistics) {
  return {static_cast<const float *>(statistics.data),
          statistics.strides[0],
          statistics.strides[1],
          statistics.strides[2],
          statistics.shape[0],
          statistics.shape[2] > 3};
}

LogitOperands operandsOf(const BoundPartLogits &call, std::span<const TensorView> views) {
  LogitOperands operands{&views[call.hidden], &views[call.weight], &views[call.targets],
                         &views[call.scratch]};
  operands.bias = call.bias < 0 ? nullptr : &views[call.bias];
  operands.scale = call.scale;
  return operands;
}

class WordStatistics final : public LogitKernel, private BoundWordStatistics {
public:
  WordStatistics(CallReader &call, const BoundCall &description, const KernelContext &context)
      : LogitKernel(description, context), BoundWordStatistics(call) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    const TensorView &numbers = views[result];
    const StatedRows stated{static_cast<float *>(numbers.data), numbers.strides[0],
                            numbers.strides[1], totals};
    const TensorView *words = prediction < 0 ? nullptr : &views[prediction];
    auto state = [&](LogitBlock &block) {
      block.shape.firstClass = own.first;
      return launched(launchWordStatistics(
          block.shape, block.logits, block.targets, block.tokens, stated,
          words ? static_cast<int32_t *>(words->data) : nullptr, context.stream));
    };
    if (views[weight].shape[0] > 0)
      return forBlocks(operandsOf(*this, views), {{&numbers, 0}, {words, 0}}, state);
    LogitBlock none{};
    none.shape.rows = views[hidden].shape[0];
    none.targets = integers(views[targets]);
    return state(none);
  }
};

class JoinedCrossEntropy final : public DeviceKernel, private BoundJoinedCrossEntropy {
public:
  JoinedCrossEntropy(CallReader &call, const BoundCall &description, const KernelContext &context)
      : DeviceKernel(description, context), BoundJoinedCrossEntropy(call) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    return launched(launchJoinedCrossEntropy(
        views[targets].shape[0], joinedOf(views[statistics]), {words, terms.smoothing, terms.z},
        integers(views[targets]), static_cast<float *>(views[loss].data), context.stream));
  }
};

class JoinedPrediction final : public DeviceKernel, private BoundJoinedPrediction {
public:
  JoinedPrediction(CallReader &call, const BoundCall &description, const KernelContext &context)
      : DeviceKernel(description, context), BoundJoinedPrediction(call) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    const TensorView &each = views[predictions];
    if (each.shape[1] > 1 && each.strides[1] != 1)
      return bad("rows of operand 'predictions' must be dense");
    return launched(launchJoinedPrediction(
        views[targets].shape[0], joinedOf(views[statistics]), integers(each), each.strides[0],
        integers(views[targets]), static_cast<int32_t *>(views[prediction].data), context.stream));
  }
};

class JoinedGradient final : public LogitKernel, private BoundJoinedGradient {
public:
  JoinedGradient(CallReader &call, const BoundCall &description, const KernelContext &context)
      : LogitKernel(description, context), BoundJoinedGradient(call) {}

  Status run(std::span<const TensorView> views, const SymbolValues &, ThreadPool &) override {
    OMNIBAL_RETURN_IF_ERROR(checkOperands(*this, views));
    LogitOperands operands = operandsOf(*this, views);
    auto given = [&](int operand) { return operand < 0 ? nullptr : &views[operand]; };
    operands.dhidden = given(dhidden);
    operands.dweight = given(dweight);
    operands.dbias = given(dbias);
    if (views[weight].shape[0] == 0) // its summand is zero
      return operands.dhidden ? fill(*operands.dhidden, 0) : Status::ok();
    if (!operands.gradients())
      return Status::ok();
    return forBlocks(operands, {{operands.dhidden, 0}}, [&](LogitBlock &block) {
      block.shape.firstClass = own.first;
      block.shape.smoothing = terms.smoothing;
      block.shape.z = terms.z;
      block.shape.rowWeights =
          rowWeights < 0 ? nullptr : static_cast<const float *>(views[rowWeights].data);
      return launched(launchJoinedGradient(block.shape, joinedOf(views[statistics]), own.words,
                                           block.logits, block.targets, block.tokens, block.slopes,
                                           context.stream));
    });
  }
};

} // namespace

void addWordLossKernels(DeviceKernelTable &table) {
  table["word_statistics"] = createKernelOf<WordStatistics>;
  table["joined_cross_entropy"] = createKernelOf<JoinedCrossEntropy>;
  table["joined_cross_entropy_backward"] = createKernelOf<JoinedGradient>;
  table["joined_prediction"] = createKernelOf<JoinedPrediction>;
}

} // namespace omnibal::rt::cuda
