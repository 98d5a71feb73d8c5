//===- BlockRun.cpp --------------------------------------------------------------------------===//
#include "dialects/omnibal/interpreter/BlockRun.h"

using namespace mlir;

namespace omnibal {

LogicalResult BlockRun::begin(ArrayRef<HostTensor> arguments) {
  if (block.getNumArguments() != arguments.size())
    return block.getParentOp()->emitOpError()
           << "takes " << block.getNumArguments() << " values, " << arguments.size() << " given";
  for (auto [argument, tensor] : llvm::zip(block.getArguments(), arguments))
    bindings[argument] = tensor;
  return success();
}

LogicalResult BlockRun::advance(function_ref<bool(Operation *)> stop) {
  while (!isAtEnd() && !stop(&*next))
    if (failed(evaluateNext()))
      return failure();
  return success();
}

LogicalResult BlockRun::evaluateNext() {
  SmallVector<const HostTensor *> operands;
  for (Value operand : next->getOperands()) {
    auto it = bindings.find(operand);
    if (it == bindings.end())
      return next->emitOpError("has an operand without a value");
    operands.push_back(&it->second);
  }
  auto results = interpreter.evaluateOp(&*next, operands);
  if (failed(results))
    return failure();
  give(*results);
  return success();
}

void BlockRun::give(MutableArrayRef<HostTensor> results) {
  for (auto [value, tensor] : llvm::zip_equal(next->getResults(), results))
    bindings[value] = std::move(tensor);
  for (Value operand : next->getOperands()) {
    auto [it, isNew] = usesLeft.try_emplace(operand, 0);
    if (isNew)
      it->second = std::distance(operand.use_begin(), operand.use_end());
    if (--it->second == 0)
      bindings.erase(operand);
  }
  ++next;
}

SmallVector<HostTensor> BlockRun::results() {
  SmallVector<HostTensor> results;
  for (Value operand : next->getOperands())
    results.push_back(bindings.find(operand)->second);
  return results;
}

} // namespace omnibal
