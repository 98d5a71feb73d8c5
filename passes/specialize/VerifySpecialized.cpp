//===- VerifySpecialized.cpp - omnibal-verify-specialized: is this form S? -----------------===//
//
// Shares no code with omnibal-specialize. What a nonzero gives depends on the data, and so does
// what follows from it, until a scatter puts it into a tensor of known shape; raising makes an
// image merge of all that. Constraints on everything else:
//   specialized_c1  types are static or affine in V and N, also those of arguments and results
//   specialized_c2  there is no squeeze, unsqueeze or tile
//   specialized_c3  no reshape, expand, slice, reduce or cumsum has an operand that says a shape,
//                   a place or an axis
//   specialized_c4  no op without effects is unused
//
//===-------------------------------------------------------------------------------------------===//
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/specialize/Passes.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_VERIFYSPECIALIZED
#include "passes/specialize/Passes.h.inc"

namespace {

bool isKnown(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && getSymbolicShape(tensor);
}

/// Whether an operand says what attributes and result types say in form S.
bool hasShapeOperand(Operation *op) {
  if (isa<ReshapeOp, ExpandOp, SliceOp, ReduceOp, CumSumOp>(op))
    return op->getNumOperands() > 1;
  return false;
}

struct VerifySpecialized : impl::VerifySpecializedBase<VerifySpecialized> {
  using VerifySpecializedBase::VerifySpecializedBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && failed(verify(function)))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  LogicalResult verify(func::FuncOp function) {
    for (auto [number, type] : llvm::enumerate(function.getArgumentTypes()))
      if (!isKnown(type))
        return function.emitOpError() << "specialized_c1: argument " << number << " is " << type
                                      << ", which is not a function of V and N";
    for (Operation &op : function.getBody().front().without_terminator())
      if (failed(verify(&op)))
        return failure();
    for (Value result : function.getBody().front().getTerminator()->getOperands())
      if (!isKnown(result.getType())) {
        InFlightDiagnostic error = function.emitOpError()
                                   << "specialized_c1: returns " << result.getType()
                                   << ", which is not a function of V and N";
        error.attachNote(result.getLoc()) << "the value is made here";
        return error;
      }
    return success();
  }

  LogicalResult verify(Operation *op) {
    if (isOpTriviallyDead(op))
      return op->emitOpError("specialized_c4: is unused");
    const bool follows =
        llvm::any_of(op->getOperands(), [&](Value v) { return ofData.contains(v); });
    const bool known = llvm::all_of(op->getResultTypes(), isKnown);
    if (!isa<ScatterNDOp, ScatterElementsOp>(op) && (follows || (isa<NonZeroOp>(op) && !known))) {
      ofData.insert(op->result_begin(), op->result_end());
      return success();
    }
    if (!known)
      return op->emitOpError() << "specialized_c1: has a result of type "
                               << *llvm::find_if_not(op->getResultTypes(), isKnown)
                               << ", which is not a function of V and N";
    if (isa<SqueezeOp, UnsqueezeOp, TileOp>(op))
      return op->emitOpError("specialized_c2: is a reshape or an expand in form S");
    if (hasShapeOperand(op))
      return op->emitOpError("specialized_c3: has an operand that says what its attributes and "
                             "result types must say");
    return success();
  }

  llvm::DenseSet<Value> ofData; ///< what follows from a nonzero
};

} // namespace
} // namespace omnibal
