//===- Interpreter.cpp - Driver of the reference interpreter -----------------------------===//
#include "dialects/omnibal/interpreter/Interpreter.h"
#include "dialects/omnibal/interpreter/BlockRun.h"
#include "dialects/omnibal/interpreter/Evaluation.h"
#include "dialects/omnibal/ir/OmnibalPartOps.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace omnibal {

Type Evaluation::elementType(unsigned result) const {
  return cast<RankedTensorType>(op->getResult(result).getType()).getElementType();
}

HostTensor &Evaluation::addResult(ArrayRef<int64_t> shape) {
  Type element = elementType(results.size());
  results.reserve(op->getNumResults()); // references to earlier results stay valid
  results.push_back(HostTensor(element, shape));
  return results.back();
}

FailureOr<SmallVector<int64_t>> Evaluation::declaredShape(unsigned result) const {
  auto type = cast<RankedTensorType>(op->getResult(result).getType());
  auto symbolic = getSymbolicShape(type);
  if (!symbolic)
    return op->emitOpError() << "cannot be evaluated: the size of its result is open";
  const InterpreterOptions &options = interpreter.getOptions();
  SmallVector<int64_t> shape;
  for (const SymbolicDim &dim : *symbolic)
    shape.push_back(dim.evaluate(options.symbols()));
  return shape;
}

const HostTensor *Evaluation::valueOf(Value value) const {
  if (!value)
    return nullptr;
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (operand == value)
      return operands[i];
  return nullptr;
}

void roundToFloat32(HostTensor &tensor) {
  for (double &value : tensor.floats)
    value = static_cast<float>(value);
}

FailureOr<SmallVector<HostTensor>> Interpreter::evaluateOp(Operation *op,
                                                           ArrayRef<const HostTensor *> operands) {
  SmallVector<HostTensor> results;
  results.reserve(op->getNumResults()); // evaluators hold references to several results
  Evaluation evaluation{op, operands, *this, results};
  for (auto evaluate :
       {evaluateElementwise, evaluateLayout, evaluateIndexing, evaluateGroups, evaluateReduction,
        evaluateMatrix, evaluateConvolution, evaluateAttention, evaluateCrossAttention,
        evaluateRecurrent, evaluateLoss, evaluateStructure}) {
    std::optional<LogicalResult> done = evaluate(evaluation);
    if (!done)
      continue;
    if (failed(*done))
      return failure();
    if (results.size() != op->getNumResults())
      return op->emitOpError("was evaluated to a wrong number of results");
    if (!options.float64)
      for (HostTensor &result : results)
        roundToFloat32(result);
    return results;
  }
  if (isa<ReshardOp>(op))
    return op->emitOpError("is where parts meet; the interpreter of parts runs them together");
  return op->emitOpError("has no rule in the interpreter");
}

namespace {
/// Evaluates `op` with operands from `bindings` and binds its results.
LogicalResult evaluateInto(Interpreter &interpreter, Operation *op,
                           Interpreter::Bindings &bindings) {
  SmallVector<const HostTensor *> operands;
  for (Value operand : op->getOperands()) {
    auto it = bindings.find(operand);
    if (it == bindings.end())
      return op->emitOpError("has an operand without a value");
    operands.push_back(&it->second);
  }
  auto results = interpreter.evaluateOp(op, operands);
  if (failed(results))
    return failure();
  for (auto [value, tensor] : llvm::zip(op->getResults(), *results))
    bindings[value] = std::move(tensor);
  return success();
}
} // namespace

FailureOr<HostTensor> Interpreter::evaluate(Value value, Bindings &bindings) {
  // Post-order over defining ops, without recursion: graphs are thousands of ops deep.
  SmallVector<std::pair<Operation *, bool>> stack;
  auto visit = [&](Value needed) -> LogicalResult {
    if (bindings.contains(needed))
      return success();
    if (Operation *op = needed.getDefiningOp()) {
      stack.push_back({op, false});
      return success();
    }
    return emitError(needed.getLoc()) << "block argument has no value bound to it";
  };
  if (failed(visit(value)))
    return failure();
  while (!stack.empty()) {
    auto [op, ready] = stack.pop_back_val();
    bool done = llvm::all_of(op->getResults(), [&](Value v) { return bindings.contains(v); });
    if (done)
      continue;
    if (ready) {
      if (failed(evaluateInto(*this, op, bindings)))
        return failure();
      continue;
    }
    stack.push_back({op, true});
    for (Value operand : op->getOperands())
      if (failed(visit(operand)))
        return failure();
  }
  return bindings.find(value)->second;
}

FailureOr<SmallVector<HostTensor>> Interpreter::run(Block &block, ArrayRef<HostTensor> arguments) {
  BlockRun run(*this, block);
  if (failed(run.begin(arguments)) || failed(run.advance([](Operation *) { return false; })))
    return failure();
  return run.results();
}

FailureOr<SmallVector<HostTensor>> Interpreter::run(func::FuncOp function,
                                                    ArrayRef<HostTensor> arguments) {
  if (function.isExternal())
    return function.emitOpError("has no body to evaluate");
  return run(function.getBody().front(), arguments);
}

bool isFoldable(Operation *op) {
  return isa<ConstantOp>(op) ||
         (isa<ShapeInferenceOpInterface>(op) && isMemoryEffectFree(op) && !isa<ReshardOp>(op));
}

FailureOr<SmallVector<int64_t>> broadcastShape(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  if (a.size() < b.size())
    std::swap(a, b);
  SmallVector<int64_t> result(a);
  size_t lead = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    int64_t &dim = result[lead + i];
    if (dim == b[i] || b[i] == 1)
      continue;
    if (dim != 1)
      return failure();
    dim = b[i];
  }
  return result;
}

SmallVector<int64_t> broadcastStrides(ArrayRef<int64_t> shape, ArrayRef<int64_t> result) {
  SmallVector<int64_t> own = rowMajorStrides(shape), strides(result.size(), 0);
  size_t lead = result.size() - shape.size();
  for (size_t i = 0; i < shape.size(); ++i)
    strides[lead + i] = shape[i] == 1 ? 0 : own[i];
  return strides;
}

void copyStrided(HostTensor &result, const HostTensor &source, ArrayRef<int64_t> strides,
                 int64_t offset) {
  SmallVector<int64_t> from(strides);
  int64_t position[1] = {offset}, i = 0;
  forEachIndex(result.shape, {from}, position,
               [&] { copyElement(result, i++, source, position[0]); });
}

std::vector<double> transposed(const double *matrix, int64_t rows, int64_t columns) {
  std::vector<double> result(rows * columns);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      result[j * rows + i] = matrix[i * columns + j];
  return result;
}

} // namespace omnibal
