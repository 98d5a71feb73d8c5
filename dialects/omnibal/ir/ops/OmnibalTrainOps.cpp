//===- OmnibalTrainOps.cpp - Verifiers of layers, their functions and calls --------------===//
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"

using namespace mlir;
using namespace omnibal;

/// `label` is the constraint's prefix, e.g. "layer"; layers and calls share these attributes.
static LogicalResult verifyChunk(Operation *op, StringRef constraint) {
  Attribute chunk = op->getAttr("omnibal.chunk");
  if (!chunk)
    return success();
  auto integer = dyn_cast<IntegerAttr>(chunk);
  if (!integer || !integer.getType().isSignlessInteger(64) || integer.getInt() < 0)
    return op->emitOpError() << constraint << ": omnibal.chunk must be an i64 >= 0, not " << chunk;
  return success();
}

static LogicalResult verifyOutputNames(Operation *op, StringRef constraint) {
  Attribute outputs = op->getAttr("omnibal.outputs");
  if (!outputs)
    return success();
  auto names = dyn_cast<ArrayAttr>(outputs);
  if (!names || names.size() != op->getNumResults())
    return op->emitOpError() << constraint << ": omnibal.outputs must be a list of "
                             << op->getNumResults() << " names, one an output";
  for (Attribute name : names) {
    auto string = dyn_cast<StringAttr>(name);
    if (!string || !llvm::is_contained({"output", "loss", "prediction", "router_loss",
                                        "chosen_reward", "rejected_reward", "preferred"},
                                       string.getValue()))
      return op->emitOpError() << constraint << ": omnibal.outputs holds " << name
                               << "; known are \"output\", \"loss\" and \"prediction\"";
  }
  return success();
}

static LogicalResult verifyCost(Operation *op) {
  Attribute cost = op->getAttr(costAttrName);
  if (cost && !isa<CostAttr>(cost))
    return op->emitOpError() << "cost_c2: omnibal.cost must be a #plan.cost, not " << cost;
  if (auto stated = dyn_cast_or_null<CostAttr>(cost);
      stated && (stated.getOutputs().size() != op->getNumResults() ||
                 stated.getGradients().size() != op->getNumResults()))
    return op->emitOpError() << "cost_c4: omnibal.cost must state bytes of " << op->getNumResults()
                             << " outputs and of their gradients";
  Attribute buffers = op->getAttr(buffersAttrName);
  if (buffers && !isa<BuffersAttr>(buffers))
    return op->emitOpError() << "buffers_c2: omnibal.buffers must be a #plan.buffers, not "
                             << buffers;
  auto held = dyn_cast_or_null<BuffersAttr>(buffers);
  if (held && held.getOutputs().size() != op->getNumResults())
    return op->emitOpError() << "buffers_c2: omnibal.buffers must state bytes of "
                             << op->getNumResults() << " outputs";
  if (auto stated = dyn_cast_or_null<CostAttr>(cost); held && stated)
    for (auto option : stated.getOptions().getAsRange<RematOptionAttr>())
      if (!held.getOptions().contains(option.getName()))
        return op->emitOpError() << "buffers_c2: omnibal.buffers lacks option \""
                                 << option.getName() << "\" of omnibal.cost";
  return success();
}

LogicalResult LayerOp::verifyRegions() {
  Block &block = getBody().front();
  SmallVector<Type> expected(getOperandTypes());
  if (block.getNumArguments() != expected.size())
    return emitOpError() << "layer_c1: the body has " << block.getNumArguments()
                         << " arguments, but the layer " << expected.size()
                         << " inputs and parameters";
  for (auto [index, type] : llvm::enumerate(expected))
    if (block.getArgument(index).getType() != type)
      return emitOpError() << "layer_c1: argument " << index << " of the body is "
                           << block.getArgument(index).getType() << ", the operand is " << type;
  auto yield = dyn_cast<YieldOp>(block.getTerminator());
  if (!yield || yield.getOperandTypes() != getResultTypes())
    return emitOpError() << "layer_c2: the yielded values must have the types of the "
                         << getNumResults() << " outputs";
  for (auto [index, parameter] : llvm::enumerate(getParameters()))
    if (!parameter.getDefiningOp<GetParameterOp>())
      return emitOpError() << "layer_c3: parameter " << index
                           << " must be the result of omnibal.get_parameter";
  if (Attribute remat = (*this)->getAttr("omnibal.remat")) {
    auto choice = dyn_cast<StringAttr>(remat);
    if (!choice || !isRematName(choice.getValue()))
      return emitOpError() << "layer_c4: omnibal.remat is " << remat
                           << "; known are \"keep\", \"selective-1\", \"selective-2\" ... and "
                              "\"full\"";
  }
  if (failed(verifyCost(*this)) || failed(verifyChunk(*this, "layer_c4")))
    return failure();
  return verifyOutputNames(*this, "layer_c5");
}

LogicalResult LayerFnOp::verifySymbolUses(SymbolTableCollection &symbols) {
  SmallVector<FlatSymbolRefAttr> names = {getForwardAttr(), getEvaluateAttr(), getInferenceAttr()};
  for (FlatSymbolRefAttr name : {getBackwardAttr(), getInputGradAttr(), getWeightGradAttr()})
    if (name)
      names.push_back(name);
  for (FlatSymbolRefAttr name : names) {
    auto function = symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, name);
    if (!function || function.isExternal())
      return emitOpError() << "layer_fn_c1: " << name << " is not a function with a body";
  }
  if (!getBackwardAttr() && (getInputGradAttr() || getWeightGradAttr()))
    return emitOpError() << "layer_fn_c2: has input_grad or weight_grad but no backward";
  return success();
}

LogicalResult CallLayerOp::verify() {
  if (failed(verifyCost(*this)) || failed(verifyChunk(*this, "call_layer_c4")))
    return failure();
  return verifyOutputNames(*this, "call_layer_c5");
}

/// Checks the types of `actuals` against those of the formals with `role`; a null type may be any.
template <typename Attributes>
static LogicalResult verifyRole(CallLayerOp call, func::FuncOp function, StringRef role,
                                ArrayRef<Type> actuals, TypeRange formals, Attributes &&attribute) {
  for (auto [position, type] : llvm::enumerate(formals)) {
    auto name = dyn_cast_or_null<StringAttr>(attribute(position, "omnibal.role"));
    auto index = dyn_cast_or_null<IntegerAttr>(attribute(position, "omnibal.index"));
    if (!name || name != role || !index)
      continue;
    const bool exists =
        index.getInt() >= 0 && index.getInt() < static_cast<int64_t>(actuals.size());
    if (exists && (!actuals[index.getInt()] || actuals[index.getInt()] == type))
      continue;
    InFlightDiagnostic error = call.emitOpError() << "call_layer_c3: ";
    if (exists)
      error << role << " " << index.getInt() << " of @" << function.getName() << " is " << type
            << ", the call gives " << actuals[index.getInt()];
    else
      error << "@" << function.getName() << " needs " << role << " " << index.getInt()
            << ", the call has " << actuals.size();
    error.attachNote(function.getLoc()) << "the function";
    return error;
  }
  return success();
}

LogicalResult CallLayerOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto callee = symbols.lookupNearestSymbolFrom<LayerFnOp>(*this, getCalleeAttr());
  if (!callee)
    return emitOpError() << "call_layer_c1: " << getCalleeAttr() << " is not an omnibal.layer_fn";
  SmallVector<Type> parameters;
  for (auto name : getParameters().getAsRange<FlatSymbolRefAttr>()) {
    auto parameter = symbols.lookupNearestSymbolFrom<ParameterOp>(*this, name);
    if (!parameter)
      return emitOpError() << "call_layer_c2: " << name << " is not an omnibal.parameter";
    // What a part has of it is the business of function_c12.
    parameters.push_back(parameter->hasAttr("omnibal.held") ? Type() : parameter.getType());
  }
  SmallVector<FlatSymbolRefAttr> names = {callee.getForwardAttr(), callee.getEvaluateAttr(),
                                          callee.getInferenceAttr()};
  for (FlatSymbolRefAttr name :
       {callee.getBackwardAttr(), callee.getInputGradAttr(), callee.getWeightGradAttr()})
    if (name)
      names.push_back(name);
  SmallVector<Type> inputs(getInputs().getTypes()), outputs(getOutputs().getTypes());
  for (FlatSymbolRefAttr name : names) {
    auto function = symbols.lookupNearestSymbolFrom<func::FuncOp>(callee, name);
    if (!function)
      continue; // layer_fn_c1 reports it
    auto argument = [&](unsigned i, StringRef key) { return function.getArgAttr(i, key); };
    auto result = [&](unsigned i, StringRef key) { return function.getResultAttr(i, key); };
    if (failed(
            verifyRole(*this, function, "input", inputs, function.getArgumentTypes(), argument)) ||
        failed(verifyRole(*this, function, "parameter", parameters, function.getArgumentTypes(),
                          argument)) ||
        failed(verifyRole(*this, function, "output", outputs, function.getArgumentTypes(),
                          argument)) ||
        failed(verifyRole(*this, function, "output", outputs, function.getResultTypes(), result)))
      return failure();
  }
  return success();
}
