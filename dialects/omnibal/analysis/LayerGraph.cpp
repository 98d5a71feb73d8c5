//===- LayerGraph.cpp - @main in form L or P as a list of layers -------------------------===//
#include "dialects/omnibal/analysis/LayerGraph.h"

using namespace mlir;
using namespace omnibal;

OutputKind omnibal::getOutputKind(LayerOp layer, unsigned output) {
  auto names = layer->getAttrOfType<ArrayAttr>("omnibal.outputs");
  if (!names)
    return OutputKind::Output;
  StringRef name = cast<StringAttr>(names[output]).getValue();
  for (OutputKind kind : outputKinds)
    if (name == nameOf(kind))
      return kind;
  return OutputKind::Output;
}

bool omnibal::leavesAsResult(LayerOp layer, Value value) {
  return llvm::any_of(value.getUses(), [&](OpOperand &use) {
    return use.getOwner() == layer.getBody().front().getTerminator() &&
           getOutputKind(layer, use.getOperandNumber()) != OutputKind::Output;
  });
}

StringRef omnibal::nameOf(OutputKind kind) {
  switch (kind) {
  case OutputKind::Output:
    return "output";
  case OutputKind::Loss:
    return "loss";
  case OutputKind::Prediction:
    return "prediction";
  case OutputKind::RouterLoss:
    return "router_loss";
  case OutputKind::ChosenReward:
    return "chosen_reward";
  case OutputKind::RejectedReward:
    return "rejected_reward";
  case OutputKind::Preferred:
    return "preferred";
  }
  return "";
}

bool omnibal::isGivenByBackward(OutputKind kind) {
  return kind != OutputKind::Output && kind != OutputKind::Prediction;
}

ParameterOp LayerGraph::getParameter(LayerOp layer, unsigned number) const {
  auto get = layer.getParameters()[number].getDefiningOp<GetParameterOp>();
  return parameters.lookup(get.getParameterAttr().getAttr());
}

FailureOr<LayerGraph> LayerGraph::get(ModuleOp module, StringRef pass) {
  LayerGraph graph;
  graph.main = module.lookupSymbol<func::FuncOp>("main");
  if (!graph.main || !graph.main.getBody().hasOneBlock())
    return module.emitError() << pass << ": the module has no function @main of one block";
  if (graph.main.getNumArguments() != 0)
    return graph.main.emitError()
           << pass
           << ": @main still has arguments; run omnibal-raise and omnibal-form-layers first";
  for (auto parameter : module.getOps<ParameterOp>())
    graph.parameters[parameter.getSymNameAttr()] = parameter;
  for (Operation &op : graph.main.getBody().front()) {
    if (auto layer = dyn_cast<LayerOp>(op)) {
      graph.layers.push_back(layer);
    } else if (auto get = dyn_cast<GetParameterOp>(op)) {
      if (!graph.parameters.contains(get.getParameterAttr().getAttr()))
        return get.emitOpError() << pass << ": there is no omnibal.parameter "
                                 << get.getParameterAttr();
    } else if (auto result = dyn_cast<func::ReturnOp>(op)) {
      graph.result = result;
    } else {
      return op.emitOpError() << "lies outside every layer; " << pass
                              << " needs omnibal-form-layers to have run";
    }
  }
  if (graph.layers.empty())
    return graph.main.emitError() << pass
                                  << ": @main has no omnibal.layer; run omnibal-form-layers first";
  return graph;
}
