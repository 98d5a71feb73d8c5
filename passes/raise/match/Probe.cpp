//===- Probe.cpp -------------------------------------------------------------------------===//
#include "passes/raise/match/Probe.h"
#include <cmath>

using namespace mlir;

namespace omnibal::raise {

llvm::SetVector<Operation *> backwardOps(Value value) {
  llvm::SetVector<Operation *> ops;
  SmallVector<Value> worklist{value};
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val().getDefiningOp();
    if (!op || !ops.insert(op) || isa<ShapeOp, SizeOp>(op))
      continue;
    llvm::append_range(worklist, op->getOperands());
  }
  return ops;
}

namespace {
SmallVector<int64_t> staticShape(Value value, const ProbeInputs &inputs) {
  SmallVector<int64_t> sizes;
  for (const SymbolicDim &dim : shapeOf(value))
    sizes.push_back(dim.evaluate(inputs.tiles, inputs.tokens));
  return sizes;
}

int64_t positionAt(const ProbeInputs &inputs, int64_t i) {
  return inputs.positions.empty() ? i : inputs.positions[i % inputs.positions.size()];
}

/// Value of a graph input of auxiliary role.
HostTensor bindArgument(func::FuncOp function, BlockArgument argument, const ProbeInputs &inputs) {
  Type element = typeOf(argument).getElementType();
  SmallVector<int64_t> shape = staticShape(argument, inputs);
  unsigned index = argument.getArgNumber();
  Role role = roleOf(function, index);
  if (role == Role::Visibility && inputs.visibilityLength > 0)
    shape.back() = inputs.visibilityLength;
  HostTensor tensor(element, shape);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    double value = 1;
    if (role == Role::Positions) {
      value = positionAt(inputs, i % inputs.tokens);
    } else if (role == Role::Mask) {
      bool sees = i % inputs.tokens <= i / inputs.tokens % inputs.tokens;
      value = tensor.isFloat() ? (sees ? 0 : -1e30) : sees;
    } else if (auto given = inputs.visibility.find(index); given != inputs.visibility.end()) {
      value = given->second[i % given->second.size()];
    }
    tensor.set(i, value);
  }
  return tensor;
}
} // namespace

FailureOr<HostTensor> probe(func::FuncOp function, Value value, const ProbeInputs &inputs) {
  InterpreterOptions options;
  options.tiles = inputs.tiles;
  options.tokens = inputs.tokens;
  Interpreter interpreter(options);
  Interpreter::Bindings bindings;
  llvm::SetVector<Operation *> ops = backwardOps(value);
  for (Operation *op : ops) {
    for (Value operand : op->getOperands())
      if (auto argument = dyn_cast<BlockArgument>(operand);
          argument && !isa<ShapeOp, SizeOp>(op) && !bindings.count(argument))
        bindings[argument] = bindArgument(function, argument, inputs);
    if (isa<ShapeOp, SizeOp>(op)) {
      SmallVector<int64_t> sizes = staticShape(op->getOperand(0), inputs);
      HostTensor result(typeOf(op->getResult(0)).getElementType(),
                        staticShape(op->getResult(0), inputs));
      int64_t begin = 0, all = 1;
      if (auto shape = dyn_cast<ShapeOp>(op)) {
        int64_t start = shape.getStart(), rank = sizes.size();
        begin = std::clamp<int64_t>(start < 0 ? start + rank : start, 0, rank);
      }
      for (int64_t size : sizes)
        all *= size;
      for (int64_t i = 0; i < result.size(); ++i)
        result.set(i, isa<SizeOp>(op) ? all : sizes[begin + i]);
      bindings[op->getResult(0)] = std::move(result);
    } else if (auto constant = dyn_cast<ConstantOp>(op);
               constant && !inputs.substitutes.empty() &&
               constant.getValue().getNumElements() <= mostConstantElements) {
      FailureOr<HostTensor> tensor = fromAttribute(constant.getValue());
      if (failed(tensor))
        return failure();
      for (int64_t i = 0; i < tensor->size(); ++i)
        if (double value = tensor->at(i); value == std::floor(value) && std::abs(value) < 0x1p53)
          if (auto it = inputs.substitutes.find(static_cast<int64_t>(std::abs(value)));
              it != inputs.substitutes.end())
            tensor->set(i, value < 0 ? -it->second : it->second);
      bindings[op->getResult(0)] = std::move(*tensor);
    } else if (isa<RangeOp>(op) && inputs.replaceRanges) {
      SmallVector<int64_t> shape = staticShape(op->getResult(0), inputs);
      if (shape.size() != 1 || shape[0] != inputs.tokens)
        continue;
      HostTensor result(typeOf(op->getResult(0)).getElementType(), shape);
      double start = splatConstant(op->getOperand(0)).value_or(0);
      for (int64_t i = 0; i < result.size(); ++i)
        result.set(i, start + positionAt(inputs, i));
      bindings[op->getResult(0)] = std::move(result);
    }
  }
  if (auto argument = dyn_cast<BlockArgument>(value))
    bindings[argument] = bindArgument(function, argument, inputs);
  return interpreter.evaluate(value, bindings);
}

} // namespace omnibal::raise
