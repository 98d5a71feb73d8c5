//===- LayOutSaved.cpp - Saved values lie as kernels leave them --------------------------===//
#include "passes/lower/Lowering.h"
#include "passes/lower/TensorBuilder.h"

using namespace mlir;

namespace omnibal::lower {
namespace {

/// The permutation between a value [B, H, L, ..] and its memory [B, L, H, ..]; none if the value is
/// not of that kind or if the order does not matter.
std::optional<SmallVector<int64_t>> headPermutation(Value value) {
  auto shape = getSymbolicShape(typeOf(value));
  if (!shape || (shape->size() != 3 && shape->size() != 4))
    return std::nullopt;
  if ((*shape)[1].isOne() || (*shape)[2].isOne())
    return std::nullopt;
  SmallVector<int64_t> permutation{0, 2, 1};
  if (shape->size() == 4)
    permutation.push_back(3);
  Operation *op = value.getDefiningOp();
  bool headMajor = isa_and_nonnull<AttentionOp, RopeOp>(op);
  if (auto transpose = dyn_cast_or_null<TransposeOp>(op))
    headMajor = transpose.getPermutation() == ArrayRef<int64_t>(permutation);
  return headMajor ? std::optional(permutation) : std::nullopt;
}

int64_t indexOf(DictionaryAttr attributes, StringRef role) {
  auto name = attributes ? attributes.getAs<StringAttr>("omnibal.role") : StringAttr();
  auto index = attributes ? attributes.getAs<IntegerAttr>("omnibal.index") : IntegerAttr();
  return name && index && name.getValue() == role ? index.getInt() : -1;
}

} // namespace

LogicalResult layOutSavedValues(func::FuncOp forward, func::FuncOp backward) {
  if (!backward)
    return success();
  auto last = cast<func::ReturnOp>(forward.getBody().front().getTerminator());
  SmallVector<Type> results(forward.getResultTypes());
  SmallVector<Type> arguments(backward.getArgumentTypes());
  for (auto [i, value] : llvm::enumerate(last.getOperands())) {
    int64_t saved = indexOf(forward.getResultAttrDict(i), "saved");
    auto permutation = saved >= 0 ? headPermutation(value) : std::nullopt;
    if (!permutation)
      continue;
    OpBuilder builder(last);
    SymbolicShape shape = *getSymbolicShape(typeOf(value));
    std::swap(shape[1], shape[2]);
    Type type = makeTensorType(builder.getContext(), shape, typeOf(value).getElementType());
    auto order = builder.getDenseI64ArrayAttr(*permutation);
    Value stored = TransposeOp::create(builder, value.getLoc(), type, value, order);
    Type original = value.getType();
    last->setOperand(i, stored);
    results[i] = type;
    for (BlockArgument argument : backward.getArguments()) {
      if (indexOf(backward.getArgAttrDict(argument.getArgNumber()), "saved") != saved)
        continue;
      builder.setInsertionPointToStart(&backward.getBody().front());
      argument.setType(type);
      arguments[argument.getArgNumber()] = type;
      auto restored = TransposeOp::create(builder, argument.getLoc(), original, argument, order);
      argument.replaceAllUsesExcept(restored, restored);
    }
  }
  forward.setType(FunctionType::get(forward.getContext(), forward.getArgumentTypes(), results));
  backward.setType(FunctionType::get(backward.getContext(), arguments, backward.getResultTypes()));
  return success();
}

} // namespace omnibal::lower
