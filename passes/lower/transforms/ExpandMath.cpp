//===- ExpandMath.cpp - Elementary functions as vectorizable arithmetic ------------------===//
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/lower/transforms/FusedKernel.h"

using namespace mlir;

namespace omnibal::lower {

LogicalResult expandMath(ModuleOp module) {
  RewritePatternSet patterns(module.getContext());
  populateMathPolynomialApproximationPatterns(patterns);
  math::populateExpansionPatterns(patterns, {"powf"});
  return applyPatternsGreedily(module, std::move(patterns));
}

} // namespace omnibal::lower
