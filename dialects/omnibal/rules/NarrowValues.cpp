#include "dialects/omnibal/rules/NarrowValues.h"
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
bool isAlwaysWide(OpResult value) {
  return llvm::TypeSwitch<Operation *, bool>(value.getOwner())
      .Case<ReduceOp, LinearWeightGradOp, GroupedLinearWeightGradOp, EmbeddingGradOp,
            ConvWeightGradOp>([](Operation *) { return true; })
      .Case<AttentionOp, CrossAttentionOp>([&](auto op) { return value == op.getLse(); })
      .Case([&](GemmOp op) { return value == op.getSums(); })
      .Case<CrossEntropyOp, CrossEntropyGradOp, LinearCrossEntropyOp>(
          [&](auto op) { return value == op.getLoss(); })
      .Case([&](LinearCrossEntropyGradOp op) { return value != op.getDhidden(); })
      .Default([](Operation *) { return false; });
}

void addResults(Operation *op, llvm::DenseSet<Value> &narrow);

/// Results of a fused group are what its body yields.
void addFused(FusedOp op, llvm::DenseSet<Value> &narrow) {
  Block &body = op.getBody().front();
  for (auto [inside, outside] : llvm::zip_equal(body.getArguments(), op.getInputs()))
    if (narrow.contains(outside))
      narrow.insert(inside);
  for (Operation &inner : body.without_terminator())
    addResults(&inner, narrow);
  for (auto [result, yielded] :
       llvm::zip_equal(op.getResults(), body.getTerminator()->getOperands()))
    if (narrow.contains(yielded))
      narrow.insert(result);
}

void addResults(Operation *op, llvm::DenseSet<Value> &narrow) {
  if (auto fused = dyn_cast<FusedOp>(op))
    return addFused(fused, narrow);
  if (llvm::none_of(op->getOperands(), [&](Value operand) { return narrow.contains(operand); }))
    return;
  for (OpResult result : op->getResults())
    if (isFloat32(result) && !isAlwaysWide(result))
      narrow.insert(result);
}

} // namespace

llvm::DenseSet<Value> omnibal::findNarrowValues(ArrayRef<Operation *> ops, ArrayRef<Value> narrow) {
  llvm::DenseSet<Value> found(narrow.begin(), narrow.end());
  for (Operation *op : ops)
    addResults(op, found);
  return found;
}

bool omnibal::isNarrowFormal(DictionaryAttr attributes, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  auto role = attributes ? attributes.getAs<StringAttr>("omnibal.role") : StringAttr();
  if (!tensor || !tensor.getElementType().isF32() || !role || attributes.contains(wideAttrName))
    return false;
  return llvm::StringSwitch<bool>(role)
      .Cases({"parameter", "input", "output", "saved", "held", "grad_output", "grad_input"}, true)
      .Default(false);
}
