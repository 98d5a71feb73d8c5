//===- LayerActivity.cpp ---------------------------------------------------------------------===//
#include "passes/differentiate/LayerActivity.h"
#include "passes/differentiate/Autodiff.h"

using namespace mlir;

namespace omnibal {

bool haveSameBody(LayerOp a, LayerOp b) {
  return a.getKind() == b.getKind() && a.getInputs().size() == b.getInputs().size() &&
         a.getOperandTypes() == b.getOperandTypes() && a.getResultTypes() == b.getResultTypes() &&
         a->getAttr("omnibal.outputs") == b->getAttr("omnibal.outputs") &&
         OperationEquivalence::isRegionEquivalentTo(
             &a.getBody(), &b.getBody(),
             OperationEquivalence::Flags::IgnoreLocations |
                 OperationEquivalence::Flags::IgnoreDiscardableAttrs);
}

SmallVector<Value> activeArguments(const LayerGraph &graph, LayerOp layer,
                                   const llvm::DenseSet<Value> &active) {
  SmallVector<Value> arguments;
  const size_t inputs = layer.getInputs().size();
  for (BlockArgument argument : layer.getBody().front().getArguments()) {
    const unsigned number = argument.getArgNumber();
    if (number < inputs ? active.contains(layer.getInputs()[number])
                        : !graph.getParameter(layer, number - inputs).getFrozen())
      arguments.push_back(argument);
  }
  return arguments;
}

llvm::DenseSet<Value> findActiveOutputs(const LayerGraph &graph) {
  llvm::DenseSet<Value> active;
  for (LayerOp layer : graph.layers) {
    SmallVector<Operation *> ops;
    for (Operation &op : layer.getBody().front().without_terminator())
      ops.push_back(&op);
    llvm::DenseSet<Value> inside = findActiveValues(ops, activeArguments(graph, layer, active));
    for (auto [output, value] : llvm::zip_equal(
             layer.getOutputs(), layer.getBody().front().getTerminator()->getOperands()))
      if (inside.contains(value))
        active.insert(output);
  }
  return active;
}

} // namespace omnibal
