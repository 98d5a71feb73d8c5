//===- main.cpp - omnibal-opt: runs passes on the dialect's textual IR ------------------------------===//
#include "dialects/omnibal/OmnibalOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Pipelines.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<omnibal::OmnibalDialect, mlir::func::FuncDialect, mlir::arith::ArithDialect,
                  mlir::math::MathDialect>();
  omnibal::registerAllPasses();
  mlir::registerTransformsPasses(); // canonicalize, cse, symbol-dce ...
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "omnibal optimiser and pass tester\n", registry));
}
