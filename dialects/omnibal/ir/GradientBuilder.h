//===- GradientBuilder.h - Short names for building gradients (internal to the dialect) --===//
#ifndef DIALECTS_OMNIBAL_IR_GRADIENTBUILDER_H
#define DIALECTS_OMNIBAL_IR_GRADIENTBUILDER_H

#include "dialects/omnibal/ir/Builders.h"

namespace omnibal {

/// Builds dialect ops at one place. Operands may broadcast; result types are inferred.
class GradientBuilder {
public:
  GradientBuilder(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}

  template <typename OpT, typename... Args> mlir::Value create(Args &&...args) {
    return createOp<OpT>(builder, loc, std::forward<Args>(args)...)->getResult(0);
  }
  mlir::Value add(mlir::Value x, mlir::Value y) { return create<AddOp>(x, y); }
  mlir::Value sub(mlir::Value x, mlir::Value y) { return create<SubOp>(x, y); }
  /// Builds a product; a factor that is a constant of ones is left out.
  mlir::Value mul(mlir::Value x, mlir::Value y);
  mlir::Value mul(mlir::Value x, double factor) { return mul(x, scalar(x, factor)); }
  mlir::Value div(mlir::Value x, mlir::Value y) { return create<DivOp>(x, y); }
  mlir::Value neg(mlir::Value x) { return create<NegOp>(x); }
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y) {
    return create<SelectOp>(condition, x, y);
  }
  mlir::Value compare(ComparePredicate predicate, mlir::Value x, mlir::Value y) {
    return create<CompareOp>(x, y, predicate);
  }
  /// Rank-0 constant of the element type of `like`.
  mlir::Value scalar(mlir::Value like, double value);
  mlir::Value scalar(mlir::Type elementType, double value);
  /// Tensor of this type with all elements equal.
  mlir::Value filled(mlir::RankedTensorType type, double value);
  /// Reduction over `axes` (all counted from the front).
  mlir::Value reduce(ReduceKind kind, mlir::Value x, llvm::ArrayRef<int64_t> axes, bool keepdims);
  mlir::Value reshape(mlir::Value x, mlir::RankedTensorType type);
  mlir::Value expand(mlir::Value x, mlir::RankedTensorType type);
  mlir::Value transpose(mlir::Value x, llvm::ArrayRef<int64_t> permutation);
  /// Sums a gradient over the dimensions that broadcasting added or stretched, back to `operand`'s
  /// type.
  mlir::Value reduceTo(mlir::Value gradient, mlir::Value operand);

  mlir::OpBuilder &builder;
  mlir::Location loc;
};

mlir::RankedTensorType tensorType(mlir::Value value);
SymbolicShape shapeOf(mlir::Value value);
bool isFloatTensor(mlir::Value value);
/// True for a constant whose elements are all `value`, also seen through expand and reshape.
bool isFilledWith(mlir::Value tensor, double value);

} // namespace omnibal

/// Begins a gradient rule: `g` holds the gradients of the results, and `gradients` (already of the
/// right length, all null) takes those of the operands; needs(i) says whether anyone wants the
/// gradient of operand i.
#define OMNIBAL_GRADIENT_RULE(OP)                                                                  \
  static llvm::LogicalResult gradientsOf##OP(                                                      \
      omnibal::OP op, omnibal::GradientBuilder &b, mlir::ValueRange g,                             \
      llvm::function_ref<bool(unsigned)> needs, llvm::MutableArrayRef<mlir::Value> gradients);     \
  llvm::LogicalResult omnibal::OP::buildGradients(                                                 \
      mlir::OpBuilder &builder, mlir::ValueRange resultGrads, llvm::ArrayRef<bool> needed,         \
      llvm::SmallVectorImpl<mlir::Value> &operandGrads) {                                          \
    operandGrads.assign((*this)->getNumOperands(), mlir::Value());                                 \
    if (!llvm::any_of(resultGrads, [](mlir::Value v) { return bool(v); }))                         \
      return llvm::success();                                                                      \
    omnibal::GradientBuilder gradientBuilder(builder, getLoc());                                   \
    auto needs = [&](unsigned i) {                                                                 \
      return needed[i] && omnibal::isFloatTensor((*this)->getOperand(i));                          \
    };                                                                                             \
    return gradientsOf##OP(*this, gradientBuilder, resultGrads, needs, operandGrads);              \
  }                                                                                                \
  static llvm::LogicalResult gradientsOf##OP(                                                      \
      [[maybe_unused]] omnibal::OP op, omnibal::GradientBuilder &b, mlir::ValueRange g,            \
      llvm::function_ref<bool(unsigned)> needs, llvm::MutableArrayRef<mlir::Value> gradients)

#endif // DIALECTS_OMNIBAL_IR_GRADIENTBUILDER_H
