//===- Control.cpp - If, Loop, Scan ------------------------------------------------------===//
#include "importers/onnx/OpTable.h"

using namespace mlir;

namespace omnibal::onnx {

namespace {

/// A constant condition takes one branch; there is no control flow after import.
LogicalResult buildIf(NodeContext &c) {
  auto constant = c.input(0).getDefiningOp<ConstantOp>();
  auto condition =
      constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  if (!condition || condition.getNumElements() != 1 || !condition.getElementType().isInteger(1))
    return c.e.unsupported("a condition that is not constant; export with the branch taken, for "
                           "fixed image sizes"),
           failure();
  const AttributeProto *branch =
      c.attribute(*condition.value_begin<bool>() ? "then_branch" : "else_branch");
  if (!branch || !branch->has_g())
    return c.e.invalid("has no graph for the branch taken"), failure();
  llvm::SmallVector<Value> results;
  if (failed(c.graph.buildBranch(branch->g(), results)))
    return failure();
  if (int64_t(results.size()) < c.node.output_size())
    return c.e.invalid("the branch gives too few results"), failure();
  return c.give(results);
}

LogicalResult buildLoop(NodeContext &c) {
  c.e.unsupported("loops; export for fixed image sizes, so that the exporter unrolls them");
  return failure();
}

} // namespace

llvm::ArrayRef<OpEntry> controlOps() {
  static const OpEntry table[] = {
      {"If", kFirst, kLast, 1, 1, buildIf},
      {"Loop", kFirst, kLast, 0, -1, buildLoop},
      {"Scan", kFirst, kLast, 0, -1, buildLoop},
  };
  return table;
}

} // namespace omnibal::onnx
