//===- Builders.h - Creating ops without spelling result types ---------------------------===//
#ifndef DIALECTS_OMNIBAL_IR_BUILDERS_H
#define DIALECTS_OMNIBAL_IR_BUILDERS_H

#include "dialects/omnibal/ir/OmnibalOps.h"

namespace omnibal {

/// Sets the types of the op's results from its operands' shapes (ShapeInferenceOpInterface) and
/// element types. Fails with a diagnostic at the op, if shapes do not fit or are not known.
llvm::LogicalResult inferResultTypes(mlir::Operation *op);

/// createOp<AddOp>(builder, loc, a, b) takes the op's operands, then its attributes, as OpT::create
/// does, but no result types. It is for ops whose result type follows from operands and attributes;
/// give reshape, expand, slice, pad, cast and *_grad scatter ops their type. The caller has checked
/// that shapes fit, so a misfit is a bug in the caller; it shows as a diagnostic and as invalid IR,
/// which the verifier after the pass reports.
template <typename OpT, typename... Args>
OpT createOp(mlir::OpBuilder &builder, mlir::Location loc, Args &&...args) {
  // Replaced below; any ranked tensor type passes through the generated builder.
  mlir::Type placeholder = mlir::RankedTensorType::get({}, builder.getF32Type());
  OpT op;
  if constexpr (OpT::template hasTrait<mlir::OpTrait::OneResult>())
    op = OpT::create(builder, loc, placeholder, std::forward<Args>(args)...);
  else if constexpr (OpT::template hasTrait<mlir::OpTrait::NResults<2>::Impl>())
    op = OpT::create(builder, loc, placeholder, placeholder, std::forward<Args>(args)...);
  else
    op = OpT::create(builder, loc, placeholder, placeholder, placeholder,
                     std::forward<Args>(args)...);
  (void)inferResultTypes(op);
  return op;
}

} // namespace omnibal
#endif // DIALECTS_OMNIBAL_IR_BUILDERS_H
