#include "dialects/omnibal/rules/BFloat16Values.h"
#include "dialects/omnibal/ir/OmnibalCrossOps.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace omnibal;

bool omnibal::isFloat32(Value value) {
  return cast<ShapedType>(value.getType()).getElementType().isF32();
}

namespace {

/// Results that stay wide whatever the op reads.
bool isAlwaysFloat32(OpResult value) {
  return llvm::TypeSwitch<Operation *, bool>(value.getOwner())
      .Case<ReduceOp, LinearWeightGradOp, GroupedLinearWeightGradOp, EmbeddingGradOp,
            ConvWeightGradOp, PreferenceLossOp, PreferenceLossGradOp, RowSquaresOp,
            WordStatisticsOp, JoinedCrossEntropyOp>([](Operation *) { return true; })
      .Case<AttentionOp, CrossAttentionOp>([&](auto op) { return value == op.getLse(); })
      .Case([&](GemmOp op) { return value == op.getSums(); })
      .Case<CrossEntropyOp, CrossEntropyGradOp, LinearCrossEntropyOp>(
          [&](auto op) { return value == op.getLoss(); })
      .Case<LinearCrossEntropyGradOp, JoinedCrossEntropyGradOp>(
          [&](auto op) { return value != op.getDhidden(); })
      .Default([](Operation *) { return false; });
}

void addResults(Operation *op, llvm::DenseSet<Value> &inBFloat16);

/// Results of a fused group are what its body yields.
void addFused(FusedOp op, llvm::DenseSet<Value> &inBFloat16) {
  Block &body = op.getBody().front();
  for (auto [inside, outside] : llvm::zip_equal(body.getArguments(), op.getInputs()))
    if (inBFloat16.contains(outside))
      inBFloat16.insert(inside);
  for (Operation &inner : body.without_terminator())
    addResults(&inner, inBFloat16);
  for (auto [result, yielded] :
       llvm::zip_equal(op.getResults(), body.getTerminator()->getOperands()))
    if (inBFloat16.contains(yielded))
      inBFloat16.insert(result);
}

void addResults(Operation *op, llvm::DenseSet<Value> &inBFloat16) {
  if (auto fused = dyn_cast<FusedOp>(op))
    return addFused(fused, inBFloat16);
  if (llvm::none_of(op->getOperands(), [&](Value operand) { return inBFloat16.contains(operand); }))
    return;
  for (OpResult result : op->getResults())
    if (isFloat32(result) && !isAlwaysFloat32(result))
      inBFloat16.insert(result);
}

} // namespace

llvm::DenseSet<Value> omnibal::findBFloat16Values(ArrayRef<Operation *> ops,
                                                  ArrayRef<Value> inBFloat16) {
  llvm::DenseSet<Value> found(inBFloat16.begin(), inBFloat16.end());
  for (Operation *op : ops)
    addResults(op, found);
  return found;
}

bool omnibal::isBFloat16Formal(DictionaryAttr attributes, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  auto role = attributes ? attributes.getAs<StringAttr>("omnibal.role") : StringAttr();
  if (!tensor || !tensor.getElementType().isF32() || !role || attributes.contains(float32AttrName))
    return false;
  return llvm::StringSwitch<bool>(role)
      .Cases({"parameter", "input", "output", "saved", "held", "grad_output", "grad_input"}, true)
      .Default(false);
}
