#include "passes/cost/LayerFacts.h"
#include "dialects/omnibal/analysis/FunctionDigest.h"
#include "dialects/omnibal/ir/Layouts.h"
#include "dialects/omnibal/ir/OmnibalPartOps.h"
#include "dialects/omnibal/rules/BFloat16Values.h"
#include "passes/common/OffsetAssignment.h"
#include "passes/shard/LayerLayouts.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace omnibal::cost {

int64_t bytesOf(Type type, MicrobatchLoad load, int64_t floatBytes) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return 0;
  auto shape = getSymbolicShape(tensor);
  if (!shape)
    return 0;
  int64_t elements = 1;
  for (const SymbolicDim &dim : *shape)
    elements *= dim.evaluate(load.symbols());
  if (isa<FloatType>(tensor.getElementType()))
    return elements * floatBytes;
  return elements * std::max<int64_t>(1, tensor.getElementTypeBitWidth() / 8);
}

int64_t heldBytes(RankedTensorType whole, LayoutAttr layout, int64_t parts, MicrobatchLoad load,
                  int64_t floatBytes) {
  // The last part has no smaller share than others.
  load.parts = parts;
  return bytesOf(partType(whole, layout, parts, parts - 1), load, floatBytes);
}

void addMove(RankedTensorType whole, LayoutAttr from, LayoutAttr to, int64_t parts,
             MicrobatchLoad load, int64_t floatBytes, Work &work) {
  const Move move = moveOf(from, to);
  if (move == Move::None)
    return;
  work.bytes += heldBytes(whole, from, parts, load, floatBytes) +
                heldBytes(whole, to, parts, load, floatBytes);
  if (!sends(move))
    return;
  const int64_t times = move == Move::AllReduce ? 2 : 1;
  const int64_t divisor = move == Move::AllToAll ? parts * parts : parts;
  work.exchanges += times;
  work.sentBytes +=
      times * ((bytesOf(whole, load, floatBytes) * (parts - 1) + divisor - 1) / divisor);
}

namespace {

/// Returns the bytes of a buffer that holds an argument or a result.
int64_t bytesOfFormal(Type type, DictionaryAttr attributes, MicrobatchLoad load,
                      int64_t floatBytes) {
  bool inFloat32 = attributes && attributes.contains(float32AttrName);
  return alignUp(bytesOf(type, load, inFloat32 ? 4 : floatBytes));
}

StringRef roleOfArgument(func::FuncOp function, unsigned index) {
  auto role = function.getArgAttrOfType<StringAttr>(index, "omnibal.role");
  return role ? role.getValue() : StringRef();
}
StringRef roleOfResult(func::FuncOp function, unsigned index) {
  auto role = function.getResultAttrOfType<StringAttr>(index, "omnibal.role");
  return role ? role.getValue() : StringRef();
}

int64_t indexOf(DictionaryAttr formal) {
  return formal.getAs<IntegerAttr>("omnibal.index").getInt();
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

void addHalves(ModuleOp module, LayerFnOp callee, MicrobatchLoad load, int64_t floatBytes,
               LayerFacts &facts) {
  auto add = [&](std::optional<StringRef> name, Work &work) {
    auto function = name ? module.lookupSymbol<func::FuncOp>(*name) : func::FuncOp();
    if (function)
      for (Operation &op : function.front())
        addWork(op, load, floatBytes, work);
    return function;
  };
  add(callee.getInputGrad(), facts.inputGrad);
  func::FuncOp second = add(callee.getWeightGrad(), facts.weightGrad);
  facts.secondHalfBytes = 0;
  for (unsigned i = 0, end = second ? second.getNumArguments() : 0; i < end; ++i)
    if (roleOfArgument(second, i) != "parameter")
      *facts.secondHalfBytes +=
          bytesOfFormal(second.getArgumentTypes()[i], second.getArgAttrDict(i), load, floatBytes);
}

LayerFacts factsOf(ModuleOp module, LayerFnOp callee, MicrobatchLoad load, int64_t floatBytes,
                   const std::string &kernels) {
  LayerFacts facts;
  facts.load = load;
  auto forward = module.lookupSymbol<func::FuncOp>(callee.getForward());
  for (Operation &op : forward.front())
    addWork(op, load, floatBytes, facts.forward);
  facts.forwardDigest = analysis::digestOf(forward, kernels, load.parts);
  if (!callee.getBackward())
    return facts;
  auto backward = module.lookupSymbol<func::FuncOp>(*callee.getBackward());
  facts.backwardDigest = analysis::digestOf(backward, kernels, load.parts);
  if (callee.getInputGrad())
    facts.inputGradDigest = analysis::digestOf(
        module.lookupSymbol<func::FuncOp>(*callee.getInputGrad()), kernels, load.parts);
  if (callee.getWeightGrad())
    facts.weightGradDigest = analysis::digestOf(
        module.lookupSymbol<func::FuncOp>(*callee.getWeightGrad()), kernels, load.parts);
  if (callee.getInputGrad() || callee.getWeightGrad()) {
    addHalves(module, callee, load, floatBytes, facts);
  } else {
    llvm::DenseSet<Operation *> forInput = inputGradientSlice(backward);
    for (Operation &op : backward.front())
      addWork(op, load, floatBytes, forInput.contains(&op) ? facts.inputGrad : facts.weightGrad);
  }
  for (BlockArgument argument : backward.getArguments()) {
    StringRef role = roleOfArgument(backward, argument.getArgNumber());
    DictionaryAttr attributes = backward.getArgAttrDict(argument.getArgNumber());
    int64_t bytes = bytesOfFormal(argument.getType(), attributes, load, floatBytes);
    if (role == "saved" || role == "input" || role == "output")
      facts.savedBytes += bytes;
    if (role == "grad_output")
      facts.gradientBytes += bytes;
  }
  for (auto [i, type] : llvm::enumerate(backward.getResultTypes()))
    if (roleOfResult(backward, i) == "grad_input") {
      facts.inputGradients.push_back(indexOf(backward.getResultAttrDict(i)));
      facts.gradientBytes += bytesOfFormal(type, backward.getResultAttrDict(i), load, floatBytes);
    }
  return facts;
}

} // namespace

void addWork(Operation &op, MicrobatchLoad load, int64_t floatBytes, Work &work) {
  if (auto move = dyn_cast<ReshardOp>(op))
    return addMove(cast<RankedTensorType>(move.getWhole()), move.getFrom(), move.getTo(),
                   static_cast<int64_t>(move.getParts()), load, floatBytes, work);
  auto costOp = dyn_cast<CostOpInterface>(op);
  if (!costOp)
    return;
  OpCost opCost = costOp.getCost();
  if (!opCost.isMatrixProduct) {
    // Ops state their traffic in float32.
    work.bytes += opCost.bytes.evaluate(load.symbols()) * floatBytes / 4;
    return;
  }
  work.matrixFlops += opCost.flops.evaluate(load.symbols()) +
                      opCost.flopsPerSquaredToken * load.squares() +
                      opCost.flopsPerSquaredTile * load.tileSquares();
}

std::vector<LayerFacts> readLayerFacts(ModuleOp module, const analysis::CallGraph &graph,
                                       MicrobatchLoad load, int64_t floatBytes,
                                       const std::string &kernels) {
  std::map<std::string, LayerFacts> known;
  std::vector<LayerFacts> result;
  for (const analysis::Call &call : graph.calls) {
    LayerFnOp callee = call.callee;
    auto [it, fresh] = known.try_emplace(callee.getSymName().str());
    if (fresh)
      it->second = factsOf(module, callee, load, floatBytes, kernels);
    result.push_back(it->second);
  }
  return result;
}

namespace {

/// Of every function that training runs, what is sent.
SmallVector<shard::Moves> movesOf(ModuleOp module, LayerFnOp callee) {
  SmallVector<shard::Moves> all;
  for (std::optional<StringRef> name :
       {std::optional<StringRef>(callee.getForward()), callee.getBackward(), callee.getInputGrad(),
        callee.getWeightGrad()}) {
    shard::Moves &moves = all.emplace_back();
    if (auto function = name ? module.lookupSymbol<func::FuncOp>(*name) : func::FuncOp())
      moves = shard::sentMoves(function);
  }
  return all;
}

} // namespace

bool partsMeet(ModuleOp module, const analysis::Call &call) {
  std::optional<SmallVector<shard::Moves>> first;
  llvm::SmallPtrSet<Operation *, 8> seen;
  for (LayerFnOp callee : call.partCallees) {
    if (!seen.insert(callee).second)
      continue;
    SmallVector<shard::Moves> moves = movesOf(module, callee);
    if (first && *first != moves)
      return false;
    first = std::move(moves);
  }
  return true;
}

} // namespace omnibal::cost
