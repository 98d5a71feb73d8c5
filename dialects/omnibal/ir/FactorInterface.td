//===- FactorInterface.td - How an op's work may be divided among parts --------------------===//
#ifndef DIALECTS_OMNIBAL_IR_FACTORINTERFACE_TD
#define DIALECTS_OMNIBAL_IR_FACTORINTERFACE_TD

include "mlir/IR/OpBase.td"

def FactorOpInterface : OpInterface<"FactorOpInterface"> {
  let cppNamespace = "::omnibal";
  let description = [{
    Says by letters how the op iterates, and builds the op that a part runs. Ops without it, or
    without a rule, are run by all parts in full.
  }];
  let methods = [
    InterfaceMethod<[{
      Letters of the dimensions of operands and results, and what splitting each one means. None
      where the sizes are open or the op has a form that is not divided.}],
      "::std::optional<::omnibal::FactorRule>", "getFactorRule", (ins)>,
    InterfaceMethod<[{
      Builds what a part runs in place of the op, from what the part holds of the operands; gives
      a value for each result.}],
      "::llvm::LogicalResult", "buildPart",
      (ins "::mlir::OpBuilder &":$builder, "const ::omnibal::PartOf &":$part,
           "::mlir::ValueRange":$operands, "::llvm::SmallVectorImpl<::mlir::Value> &":$results)>
  ];
}

#endif // DIALECTS_OMNIBAL_IR_FACTORINTERFACE_TD
