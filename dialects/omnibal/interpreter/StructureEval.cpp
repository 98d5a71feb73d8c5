//===- StructureEval.cpp - Constants, named values, layers, calls, lowered groups --------===//
#include "dialects/omnibal/interpreter/Evaluation.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;

namespace omnibal {
namespace {

LogicalResult constant(Evaluation &e, ElementsAttr value) {
  auto tensor = fromAttribute(value);
  if (failed(tensor))
    return e.op->emitOpError("holds data that is not present");
  e.results.push_back(std::move(*tensor));
  return success();
}

LogicalResult batchValue(Evaluation &e, BatchValueOp op) {
  auto it = e.interpreter.batchValues.find(op.getName());
  if (it == e.interpreter.batchValues.end())
    return op.emitOpError() << "'" << op.getName() << "' has no value";
  e.results.push_back(it->second);
  return success();
}

LogicalResult parameter(Evaluation &e, FlatSymbolRefAttr name) {
  auto it = e.interpreter.parameters.find(name.getValue());
  if (it != e.interpreter.parameters.end()) {
    e.results.push_back(it->second);
    return success();
  }
  auto symbol = SymbolTable::lookupNearestSymbolFrom<ParameterOp>(e.op, name);
  if (symbol && symbol.getValue() && !symbol.getTransposed())
    return constant(e, *symbol.getValue());
  return e.op->emitOpError() << "parameter '" << name.getValue() << "' has no value";
}

LogicalResult runBody(Evaluation &e, Region &body) {
  SmallVector<HostTensor> arguments;
  for (const HostTensor *operand : e.operands)
    arguments.push_back(*operand);
  auto results = e.interpreter.run(body.front(), arguments);
  if (failed(results))
    return failure();
  for (HostTensor &result : *results)
    e.results.push_back(std::move(result));
  return success();
}

/// Runs the function of a materialized layer that computes the call's outputs: `evaluate` if one of
/// them is a loss or prediction, else `forward` (docs/contract-compiler.md names the roles).
LogicalResult callLayer(Evaluation &e, CallLayerOp op) {
  auto layer = SymbolTable::lookupNearestSymbolFrom<LayerFnOp>(op, op.getCalleeAttr());
  if (!layer)
    return op.emitOpError() << "calls unknown layer function " << op.getCallee();
  SmallVector<StringRef> wanted(op.getNumResults(), "output");
  if (auto kinds = op->getAttrOfType<ArrayAttr>("omnibal.outputs"))
    for (auto [i, kind] : llvm::enumerate(kinds.getAsRange<StringAttr>()))
      wanted[i] = kind.getValue();
  bool isLoss = llvm::any_of(wanted, [](StringRef kind) { return kind != "output"; });
  FlatSymbolRefAttr name = isLoss ? layer.getEvaluateAttr() : layer.getForwardAttr();
  auto function = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, name);
  if (!function)
    return op.emitOpError() << "calls unknown function " << name;
  SmallVector<HostTensor> arguments;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto role = function.getArgAttrOfType<StringAttr>(i, "omnibal.role");
    auto index = function.getArgAttrOfType<IntegerAttr>(i, "omnibal.index");
    if (!role || !index)
      return function.emitOpError() << "argument " << i << " has no role or index";
    if (role.getValue() == "input") {
      arguments.push_back(e.operand(index.getInt()));
      continue;
    }
    auto symbol = cast<FlatSymbolRefAttr>(op.getParameters()[index.getInt()]);
    auto it = e.interpreter.parameters.find(symbol.getValue());
    if (it == e.interpreter.parameters.end())
      return op.emitOpError() << "parameter '" << symbol.getValue() << "' has no value";
    arguments.push_back(it->second);
  }
  auto values = e.interpreter.run(function, arguments);
  if (failed(values))
    return failure();
  for (unsigned output = 0; output < op.getNumResults(); ++output) {
    bool found = false;
    for (unsigned i = 0; i < function.getNumResults() && !found; ++i) {
      auto role = function.getResultAttrOfType<StringAttr>(i, "omnibal.role");
      auto index = function.getResultAttrOfType<IntegerAttr>(i, "omnibal.index");
      found = role && role.getValue() == wanted[output] &&
              (wanted[output] != "output" || (index && index.getInt() == output));
      if (found)
        e.results.push_back((*values)[i]);
    }
    if (!found)
      return function.emitOpError() << "does not compute output " << output << " of the call";
  }
  return success();
}

} // namespace

std::optional<LogicalResult> evaluateStructure(Evaluation &e) {
  return llvm::TypeSwitch<Operation *, std::optional<LogicalResult>>(e.op)
      .Case([&](ConstantOp op) { return constant(e, op.getValue()); })
      .Case([&](BatchValueOp op) { return batchValue(e, op); })
      .Case([&](GetParameterOp op) { return parameter(e, op.getParameterAttr()); })
      .Case([&](LayerOp op) { return runBody(e, op.getBody()); })
      .Case([&](FusedOp op) { return runBody(e, op.getBody()); })
      .Case([&](CallLayerOp op) { return callLayer(e, op); })
      .Default([](Operation *) { return std::nullopt; });
}

} // namespace omnibal
