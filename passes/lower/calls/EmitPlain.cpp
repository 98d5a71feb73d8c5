//===- EmitPlain.cpp - Ops that run under their own name ---------------------------------===//
#include "passes/lower/calls/CallBuilder.h"

using namespace mlir;

namespace omnibal::lower {
namespace {

/// Names of the operands as in the dialect; the last may be absent.
std::optional<SmallVector<StringRef>> operandNames(Operation *op) {
  if (isa<SoftmaxOp, LogSoftmaxOp>(op))
    return SmallVector<StringRef>{"input"};
  if (isa<LayerNormOp>(op))
    return SmallVector<StringRef>{"input", "scale", "bias"};
  if (isa<RMSNormOp>(op))
    return SmallVector<StringRef>{"input", "scale"};
  if (isa<ConvOp>(op))
    return SmallVector<StringRef>{"input", "weight", "bias"};
  if (isa<ConvInputGradOp>(op))
    return SmallVector<StringRef>{"grad", "weight"};
  if (isa<ConvWeightGradOp>(op))
    return SmallVector<StringRef>{"input", "grad"};
  if (isa<GatherOp, GatherNDOp, GatherElementsOp>(op))
    return SmallVector<StringRef>{"input", "indices"};
  if (isa<ScatterNDOp, ScatterElementsOp>(op))
    return SmallVector<StringRef>{"input", "indices", "updates"};
  if (isa<TopKOp>(op))
    return SmallVector<StringRef>{"input"};
  if (isa<TriluOp>(op))
    return SmallVector<StringRef>{"input", "k"};
  if (isa<CumSumOp>(op))
    return SmallVector<StringRef>{"input", "axisOperand"};
  return std::nullopt;
}

nlohmann::json toJson(Attribute attribute) {
  if (isa<UnitAttr>(attribute))
    return true;
  if (auto value = dyn_cast<BoolAttr>(attribute))
    return value.getValue();
  if (auto value = dyn_cast<IntegerAttr>(attribute))
    return value.getInt();
  if (auto value = dyn_cast<FloatAttr>(attribute))
    return value.getValueAsDouble();
  if (auto value = dyn_cast<StringAttr>(attribute))
    return value.str();
  if (auto value = dyn_cast<DenseI64ArrayAttr>(attribute))
    return std::vector<int64_t>(value.asArrayRef().begin(), value.asArrayRef().end());
  return nullptr;
}

} // namespace

LogicalResult CallBuilder::emitPlain(Operation *op) {
  auto names = operandNames(op);
  if (!names || op->getNumOperands() > names->size() || op->getNumResults() != 1)
    return op->emitOpError("has no kernel on the host backend");
  std::vector<std::pair<std::string, Place>> operands;
  for (auto [name, value] : llvm::zip(*names, op->getOperands()))
    operands.emplace_back(name, placeOf(value));
  Place result = fresh(op->getResult(0));
  set(op->getResult(0), result);
  operands.emplace_back("result", result);
  Call &plain = call(op, op->getName().stripDialect(), std::move(operands));
  for (NamedAttribute attribute : op->getAttrDictionary()) {
    nlohmann::json value = toJson(attribute.getValue());
    StringRef name = attribute.getName().getValue();
    if (!value.is_null() && !name.starts_with("omnibal.") && !name.ends_with("SegmentSizes"))
      plain.attributes[name.str()] = std::move(value);
  }
  return success();
}

} // namespace omnibal::lower
