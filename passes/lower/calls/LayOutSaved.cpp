//===- LayOutSaved.cpp - Saved values lie as kernels leave them --------------------------===//
#include "dialects/omnibal/ir/OmnibalCrossOps.h"
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
  bool headMajor = isa_and_nonnull<AttentionOp, CrossAttentionOp, GatedDeltaOp, RopeOp>(op);
  if (auto transpose = dyn_cast_or_null<TransposeOp>(op))
    headMajor = transpose.getPermutation() == ArrayRef<int64_t>(permutation);
  return headMajor ? std::optional(permutation) : std::nullopt;
}

int64_t indexOf(DictionaryAttr attributes, StringRef role) {
  auto name = attributes ? attributes.getAs<StringAttr>("omnibal.role") : StringAttr();
  auto index = attributes ? attributes.getAs<IntegerAttr>("omnibal.index") : IntegerAttr();
  return name && index && name.getValue() == role ? index.getInt() : -1;
}

/// Argument `index` of `role`, if there is one, arrives as `type`; the body goes on with what it
/// was.
void restoreArgument(func::FuncOp reader, StringRef role, int64_t index, Type type,
                     DenseI64ArrayAttr order) {
  for (BlockArgument argument : reader.getArguments()) {
    if (indexOf(reader.getArgAttrDict(argument.getArgNumber()), role) != index)
      continue;
    auto builder = OpBuilder::atBlockBegin(&reader.getBody().front());
    Type original = argument.getType();
    argument.setType(type);
    auto restored = TransposeOp::create(builder, argument.getLoc(), original, argument, order);
    argument.replaceAllUsesExcept(restored, restored);
  }
  reader.setType(FunctionType::get(reader.getContext(), reader.getBody().front().getArgumentTypes(),
                                   reader.getResultTypes()));
}

/// Of the values that `writer` yields under `role`.
void layOut(func::FuncOp writer, StringRef role, ArrayRef<func::FuncOp> readers) {
  if (readers.empty())
    return;
  auto last = cast<func::ReturnOp>(writer.getBody().front().getTerminator());
  SmallVector<Type> results(writer.getResultTypes());
  for (auto [i, value] : llvm::enumerate(last.getOperands())) {
    int64_t saved = indexOf(writer.getResultAttrDict(i), role);
    auto permutation = saved >= 0 ? headPermutation(value) : std::nullopt;
    if (!permutation)
      continue;
    OpBuilder builder(last);
    SymbolicShape shape = *getSymbolicShape(typeOf(value));
    std::swap(shape[1], shape[2]);
    Type type = makeTensorType(builder.getContext(), shape, typeOf(value).getElementType());
    auto order = builder.getDenseI64ArrayAttr(*permutation);
    Value stored = TransposeOp::create(builder, value.getLoc(), type, value, order);
    last->setOperand(i, stored);
    results[i] = type;
    for (func::FuncOp reader : readers)
      restoreArgument(reader, role, saved, type, order);
  }
  writer.setType(FunctionType::get(writer.getContext(), writer.getArgumentTypes(), results));
}

} // namespace

void layOutSavedValues(LayerFnOp layer) {
  auto lookup = [&](FlatSymbolRefAttr name) {
    return name ? SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(layer, name) : func::FuncOp();
  };
  func::FuncOp inputGrad = lookup(layer.getInputGradAttr());
  func::FuncOp weightGrad = lookup(layer.getWeightGradAttr());
  SmallVector<func::FuncOp> readers;
  for (func::FuncOp reader : {lookup(layer.getBackwardAttr()), inputGrad, weightGrad})
    if (reader && !llvm::is_contained(readers, reader)) // a half may be the whole
      readers.push_back(reader);
  layOut(lookup(layer.getForwardAttr()), "saved", readers);
  if (inputGrad && weightGrad)
    layOut(inputGrad, "held", weightGrad);
}

} // namespace omnibal::lower
