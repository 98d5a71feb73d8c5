//===- LayerBackward.cpp ---------------------------------------------------------------------===//
#include "passes/shard/search/LayerBackward.h"
#include "mlir/IR/IRMapping.h"
#include "passes/differentiate/Autodiff.h"
#include "passes/differentiate/SavedValues.h"

using namespace mlir;

namespace omnibal::shard {
namespace {

/// Whether evaluation and inference alone read an output: predictions, and what a layer with a loss
/// gives no other layer.
bool isIdle(LayerOp layer, size_t output) {
  const OutputKind kind = getOutputKind(layer, output);
  if (kind == OutputKind::Prediction)
    return true;
  bool hasLoss = false;
  for (size_t i = 0; i < layer->getNumResults(); ++i)
    hasLoss |= getOutputKind(layer, i) == OutputKind::Loss;
  return hasLoss && kind == OutputKind::Output &&
         llvm::none_of(layer->getResult(output).getUsers(), llvm::IsaPred<LayerOp>);
}

llvm::DenseSet<Operation *> findIdle(LayerOp layer) {
  Block &body = layer.getBody().front();
  llvm::DenseSet<Value> read;
  for (auto [i, output] : llvm::enumerate(body.getTerminator()->getOperands()))
    if (!isIdle(layer, i))
      read.insert(output);
  llvm::DenseSet<Operation *> idle;
  for (Operation &op : llvm::reverse(body.without_terminator())) {
    if (llvm::none_of(op.getResults(), [&](Value each) { return read.contains(each); }))
      idle.insert(&op);
    else
      read.insert(op.operand_begin(), op.operand_end());
  }
  return idle;
}

/// A copy of the layer's body with its gradient ops.
class GradientCopy {
public:
  explicit GradientCopy(LayerOp layer) : layer(layer), builder(layer.getContext()) {
    module = ModuleOp::create(layer.getLoc());
    builder.setInsertionPointToEnd(module->getBody());
    Block &body = layer.getBody().front();
    auto function =
        func::FuncOp::create(builder, layer.getLoc(), "copy",
                             builder.getFunctionType(body.getArgumentTypes(), TypeRange()));
    block = function.addEntryBlock();
    builder.setInsertionPointToEnd(block);
    for (auto [own, copy] : llvm::zip_equal(body.getArguments(), block->getArguments()))
      remember(own, copy);
    for (Operation &op : body.without_terminator()) {
      Operation *copy = builder.clone(op, mapping);
      ops.push_back(copy);
      for (auto [own, copied] : llvm::zip_equal(op.getResults(), copy->getResults()))
        remember(own, copied);
    }
  }

  FailureOr<LayerBackward> read(ArrayRef<Value> arguments) {
    SmallVector<Value> copies;
    for (Value argument : arguments)
      copies.push_back(mapping.lookup(argument));
    const auto active = findActiveValues(ops, copies);
    auto gradients = buildGradients(builder, ops, seeds(active), active);
    if (failed(gradients))
      return failure();
    auto kept = selectSavedValues(readByGradients(*gradients, copies));
    if (failed(kept))
      return failure();
    LayerBackward result;
    result.idle = findIdle(layer);
    for (Value each : active)
      result.active.insert(original.lookup(each));
    for (auto [value, gradient] : gradients->of)
      if (gradient)
        result.withGradient.insert(original.lookup(value));
    for (Value each : *kept)
      result.kept.insert(original.lookup(each));
    return result;
  }

private:
  void remember(Value own, Value copy) {
    mapping.map(own, copy);
    original[copy] = own;
  }

  /// Gradients come in where an output is read by others.
  SmallVector<std::pair<Value, Value>> seeds(const llvm::DenseSet<Value> &active) {
    SmallVector<std::pair<Value, Value>> given;
    Operation *yield = layer.getBody().front().getTerminator();
    for (auto [i, output] : llvm::enumerate(yield->getOperands())) {
      Value copy = mapping.lookup(output);
      const OutputKind kind = getOutputKind(layer, i);
      if (active.contains(copy) && !isIdle(layer, i) &&
          (kind == OutputKind::Output || kind == OutputKind::RouterLoss))
        given.push_back({copy, block->addArgument(copy.getType(), copy.getLoc())});
    }
    return given;
  }

  /// Only live gradient ops count; a return keeps them alive.
  RematQuery readByGradients(const Gradients &gradients, ArrayRef<Value> arguments) {
    RematQuery query;
    SmallVector<Value> results;
    for (Value argument : arguments)
      if (Value gradient = gradients.of.lookup(argument))
        results.push_back(gradient);
    func::ReturnOp::create(builder, layer.getLoc(), results);
    const llvm::DenseSet<Operation *> forward(ops.begin(), ops.end());
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block)))
      if (!forward.contains(&op) && isOpTriviallyDead(&op))
        op.erase();
    for (Operation &op : *block)
      if (!forward.contains(&op))
        for (Value operand : op.getOperands())
          if (original.count(operand))
            query.needed.insert(operand);
    for (auto [i, argument] : llvm::enumerate(block->getArguments()))
      if (i >= layer.getInputs().size() && original.count(argument))
        query.available.insert(argument);
    return query;
  }

  LayerOp layer;
  OpBuilder builder;
  OwningOpRef<ModuleOp> module;
  Block *block = nullptr;
  SmallVector<Operation *> ops;
  IRMapping mapping;
  llvm::DenseMap<Value, Value> original; ///< of a copied value
};

} // namespace

FailureOr<LayerBackward> readBackward(LayerOp layer, ArrayRef<Value> arguments) {
  return GradientCopy(layer).read(arguments);
}

} // namespace omnibal::shard
