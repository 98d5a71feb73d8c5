#include "passes/partition/LayerFacts.h"
#include "llvm/ADT/SetVector.h"
#include <map>

using namespace mlir;

namespace omnibal::partition {
namespace {

int64_t bytesOf(Type type, Load load, int64_t floatBytes) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return 0;
  auto shape = getSymbolicShape(tensor);
  if (!shape)
    return 0;
  int64_t elements = 1;
  for (const SymbolicDim &dim : *shape)
    elements *= dim.evaluate(load.tiles, load.tokens);
  if (isa<FloatType>(tensor.getElementType()))
    return elements * floatBytes;
  return elements * std::max<int64_t>(1, tensor.getElementTypeBitWidth() / 8);
}

void addWork(Operation &op, Load load, int64_t floatBytes, cost::Work &work) {
  auto costOp = dyn_cast<CostOpInterface>(op);
  if (!costOp)
    return;
  OpCost opCost = costOp.getCost();
  if (!opCost.isMatrixProduct) {
    // Ops state their traffic in float32.
    work.bytes += opCost.bytes.evaluate(load.tiles, load.tokens) * floatBytes / 4;
    return;
  }
  work.matrixFlops +=
      opCost.flops.evaluate(load.tiles, load.tokens) + opCost.flopsPerSquaredToken * load.squares();
}

StringRef roleOfArgument(func::FuncOp function, unsigned index) {
  auto role = function.getArgAttrOfType<StringAttr>(index, "omnibal.role");
  return role ? role.getValue() : StringRef();
}
StringRef roleOfResult(func::FuncOp function, unsigned index) {
  auto role = function.getResultAttrOfType<StringAttr>(index, "omnibal.role");
  return role ? role.getValue() : StringRef();
}

/// Ops that the gradient of some input depends on.
llvm::DenseSet<Operation *> inputGradientSlice(func::FuncOp backward) {
  llvm::SetVector<Operation *> work;
  auto push = [&](Value value) {
    if (Operation *op = value.getDefiningOp())
      work.insert(op);
  };
  for (OpOperand &operand : backward.front().getTerminator()->getOpOperands())
    if (roleOfResult(backward, operand.getOperandNumber()) == "grad_input")
      push(operand.get());
  for (unsigned i = 0; i < work.size(); ++i)
    for (Value operand : work[i]->getOperands())
      push(operand);
  return llvm::DenseSet<Operation *>(work.begin(), work.end());
}

/// Largest sum of intermediate values live between two ops of the function.
int64_t peakLiveBytes(func::FuncOp function, Load load, int64_t floatBytes) {
  llvm::DenseMap<Operation *, int64_t> position;
  int64_t count = 0;
  for (Operation &op : function.front())
    position[&op] = count++;
  std::vector<int64_t> change(count + 1, 0);
  for (Operation &op : function.front()) {
    if (isa<GetParameterOp, ConstantOp, BatchValueOp, ReshapeOp, TransposeOp>(op))
      continue;
    for (Value result : op.getResults()) {
      int64_t last = position[&op];
      bool leaves = false;
      for (Operation *user : result.getUsers()) {
        last = std::max(last, position.lookup(user));
        leaves |= isa<func::ReturnOp>(user);
      }
      if (leaves)
        continue; // the caller's buffer
      int64_t bytes = bytesOf(result.getType(), load, floatBytes);
      change[position[&op]] += bytes;
      change[last] -= bytes;
    }
  }
  int64_t live = 0, peak = 0;
  for (int64_t delta : change) {
    live += delta;
    peak = std::max(peak, live);
  }
  return peak;
}

LayerFacts factsOf(ModuleOp module, LayerFnOp callee, Load load, int64_t floatBytes) {
  LayerFacts facts;
  auto forward = module.lookupSymbol<func::FuncOp>(callee.getForward());
  for (Operation &op : forward.front())
    addWork(op, load, floatBytes, facts.forward);
  if (!callee.getBackward())
    return facts;
  auto backward = module.lookupSymbol<func::FuncOp>(*callee.getBackward());
  llvm::DenseSet<Operation *> forInput = inputGradientSlice(backward);
  for (Operation &op : backward.front())
    addWork(op, load, floatBytes, forInput.contains(&op) ? facts.inputGrad : facts.weightGrad);
  for (BlockArgument argument : backward.getArguments()) {
    StringRef role = roleOfArgument(backward, argument.getArgNumber());
    if (role == "saved" || role == "input" || role == "output")
      facts.savedBytes += bytesOf(argument.getType(), load, floatBytes);
  }
  facts.workspaceBytes = peakLiveBytes(backward, load, floatBytes);
  return facts;
}

} // namespace

std::vector<LayerFacts> readLayerFacts(ModuleOp module, const CallGraph &graph, Load load,
                                       int64_t floatBytes) {
  std::map<std::string, LayerFacts> known;
  std::vector<LayerFacts> result;
  for (const Call &call : graph.calls) {
    LayerFnOp callee = call.callee;
    auto [it, fresh] = known.try_emplace(callee.getSymName().str());
    if (fresh)
      it->second = factsOf(module, callee, load, floatBytes);
    LayerFacts facts = it->second;
    for (const std::string &name : call.parameters) {
      auto parameter = module.lookupSymbol<ParameterOp>(name);
      int64_t elements = cast<RankedTensorType>(parameter.getType()).getNumElements();
      facts.parameterElements += elements;
      if (!parameter.getFrozen())
        facts.trainableElements += elements;
    }
    result.push_back(facts);
  }
  return result;
}

} // namespace omnibal::partition
