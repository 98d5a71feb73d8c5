//===- OmnibalOps.h - The omnibal dialect ------------------------------------------------===//
#ifndef DIALECTS_OMNIBAL_IR_OMNIBALOPS_H
#define DIALECTS_OMNIBAL_IR_OMNIBALOPS_H

#include "dialects/omnibal/ir/OpCost.h"
#include "dialects/omnibal/ir/SymbolicShape.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace omnibal::detail {
/// Verifier of ShapeInferenceOpInterface: element types follow the op's rule, and result shapes
/// agree with the inferred ones where both are known (ShapeInference.cpp).
llvm::LogicalResult verifyShapesAndTypes(mlir::Operation *op);
} // namespace omnibal::detail

namespace omnibal {
/// Says of an op that its results count as constants when gradients are taken: its gradient is zero
/// (floor), or is meant to be.
template <typename OpT>
class HasZeroGradient : public mlir::OpTrait::TraitBase<OpT, HasZeroGradient> {};
} // namespace omnibal

#include "dialects/omnibal/ir/OmnibalDialect.h.inc"
#include "dialects/omnibal/ir/OmnibalEnums.h.inc"
#include "dialects/omnibal/ir/OmnibalInterfaces.h.inc"

#define GET_OP_CLASSES
#include "dialects/omnibal/ir/OmnibalOps.h.inc"

#endif // DIALECTS_OMNIBAL_IR_OMNIBALOPS_H
