//===- OmnibalInterfaces.td - What passes ask of an op -----------------------------------===//
#ifndef DIALECTS_OMNIBAL_IR_OMNIBALINTERFACES_TD
#define DIALECTS_OMNIBAL_IR_OMNIBALINTERFACES_TD

include "mlir/IR/OpBase.td"

def ElementwiseOpInterface : OpInterface<"ElementwiseOpInterface"> {
  let cppNamespace = "::omnibal";
  let description = [{
    One result; result[i] depends on operand[i] only, operands broadcast as in NumPy. Fusion and
    code generation see elementwise ops through this interface alone.
  }];
  let methods = [
    InterfaceMethod<[{Emits the op on scalars or vectors of equal shape with arith and math ops;
      `operands` have the element types of the op's operands.}],
      "::mlir::Value", "emitScalar",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc, "::mlir::ValueRange":$operands)>,
    InterfaceMethod<"The value in float64; integers and booleans are exact doubles.",
      "double", "evaluate", (ins "::llvm::ArrayRef<double>":$operands)>
  ];
}

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::omnibal";
  let description = [{
    Builds the vector-Jacobian product of the op from dialect ops.
  }];
  let methods = [
    InterfaceMethod<[{
      `resultGrads[i]` is the gradient of result i or null (zero). Fills `operandGrads` (one entry
      an operand, of the operand's type) for the operands with needed[i]; null means zero. Reads
      the op's operands and results, which the caller keeps available or recomputes.}],
      "::llvm::LogicalResult", "buildGradients",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$resultGrads,
           "::llvm::ArrayRef<bool>":$needed,
           "::llvm::SmallVectorImpl<::mlir::Value> &":$operandGrads)>
  ];
}

def ShapeInferenceOpInterface : OpInterface<"ShapeInferenceOpInterface"> {
  let cppNamespace = "::omnibal";
  let description = [{
    Result shapes from operand shapes, affine in (V, N). Used by specialization and by verifiers.
  }];
  let methods = [
    InterfaceMethod<[{
      `contents(i)` gives the elements of integer operand i as affine expressions, or none if they
      are not known at compile time. Fails with a located diagnostic when shapes do not fit.}],
      "::llvm::LogicalResult", "inferSymbolicShapes",
      (ins "::llvm::ArrayRef<::omnibal::SymbolicShape>":$operandShapes,
           "::llvm::function_ref<std::optional<::omnibal::SymbolicShape>(unsigned)>":$contents,
           "::llvm::SmallVectorImpl<::omnibal::SymbolicShape> &":$resultShapes)>
  ];
  // Every op of the interface has its shapes and element types verified by its own rules.
  let verify = [{ return ::omnibal::detail::verifyShapesAndTypes($_op); }];
}

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::omnibal";
  let description = "What the op costs, as functions of V and N (hand-derived, tested).";
  let methods = [
    InterfaceMethod<"FLOPs and bytes of the op itself; a multiply-add counts 2.",
      "::omnibal::OpCost", "getCost", (ins)>
  ];
}

def RematerializableOpInterface : OpInterface<"RematerializableOpInterface"> {
  let cppNamespace = "::omnibal";
  let description = "What recomputing the op's results in backward means.";
  let methods = [
    InterfaceMethod<[{True if a result is cheaper to recompute from the operands than to keep
      (views, elementwise chains, norms): work that is bound by bandwidth only.}],
      "bool", "isCheapToRecompute", (ins)>
  ];
}

/// Results count as constants when gradients are taken, whatever they are computed from.
def HasZeroGradient : NativeOpTrait<"HasZeroGradient"> {
  let cppNamespace = "::omnibal";
}

#endif // DIALECTS_OMNIBAL_IR_OMNIBALINTERFACES_TD
