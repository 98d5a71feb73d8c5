//===- FormLayers.cpp - omnibal-form-layers ----------------------------------------------===//
#include "mlir/IR/IRMapping.h"
#include "passes/layers/LayerSearch.h"
#include "passes/layers/Passes.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_FORMLAYERSPASS
#include "passes/layers/Passes.h.inc"

namespace layers {
namespace {

/// Builds the layer ops. Ops within a layer come in the order of a walk from its outputs, so that
/// equal layers are equal op by op, whatever order the graph had.
class LayerBuilder {
public:
  LayerBuilder(func::FuncOp function, const ContentOps &content, ArrayRef<LayerPlan> plans)
      : function(function), content(content), builder(function) {
    for (auto [i, plan] : llvm::enumerate(plans))
      for (Operation *op : plan.ops)
        layerOf[op] = i;
  }

  LogicalResult build(const LayerPlan &plan, size_t index);
  /// Value after layers were formed.
  Value replacement(Value value) const { return formed.lookup(value); }

private:
  void order(Operation *op, size_t index);
  void clear() {
    ordered.clear();
    inputs.clear();
    parameters.clear();
  }

  func::FuncOp function;
  const ContentOps &content;
  OpBuilder builder;
  llvm::DenseMap<Operation *, size_t> layerOf;
  llvm::DenseMap<Value, Value> formed;
  llvm::DenseSet<Value> moved;
  // These belong to the current layer.
  llvm::SetVector<Operation *> ordered;
  llvm::SetVector<Value> inputs, parameters;
};

void LayerBuilder::order(Operation *op, size_t index) {
  if (ordered.contains(op))
    return;
  for (Value operand : op->getOperands()) {
    Operation *source = operand.getDefiningOp();
    if (isa<GetParameterOp>(source))
      parameters.insert(operand);
    else if (content.contains(source) && layerOf.lookup(source) != index)
      inputs.insert(operand);
    else
      order(source, index);
  }
  ordered.insert(op);
}

LogicalResult LayerBuilder::build(const LayerPlan &plan, size_t index) {
  clear();
  SmallVector<Value> outputs;
  for (Operation *op : plan.ops)
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) {
            auto it = layerOf.find(user);
            return it == layerOf.end() || it->second != index;
          }))
        outputs.push_back(result);
  // One output is the rule; several come in block order.
  for (Value output : outputs)
    order(output.getDefiningOp(), index);

  SmallVector<Value> operands;
  for (Value input : inputs) {
    Value value = formed.lookup(input);
    if (!value) {
      InFlightDiagnostic error = function.emitError()
                                 << "layer '" << plan.name << "' reads a value of a later layer, "
                                 << describe(input.getDefiningOp());
      error.attachNote(input.getLoc()) << "the value is made here";
      return error;
    }
    operands.push_back(value);
  }
  SmallVector<Type> types;
  for (Value output : outputs)
    types.push_back(output.getType());
  builder.setInsertionPoint(function.getBody().front().getTerminator());
  for (Value parameter : parameters) // beside the first layer that reads it
    if (!moved.contains(parameter)) {
      parameter.getDefiningOp()->moveBefore(function.getBody().front().getTerminator());
      moved.insert(parameter);
    }
  Location loc = NameLoc::get(builder.getStringAttr(plan.name));
  auto layer = LayerOp::create(builder, loc, types, builder.getStringAttr(plan.name),
                               LayerKindAttr::get(function.getContext(), plan.kind), operands,
                               parameters.getArrayRef());
  Block &body = layer.getBody().emplaceBlock();
  IRMapping mapping;
  for (Value input : inputs)
    mapping.map(input, body.addArgument(input.getType(), input.getLoc()));
  for (Value parameter : parameters)
    mapping.map(parameter, body.addArgument(parameter.getType(), parameter.getLoc()));
  OpBuilder inner = OpBuilder::atBlockEnd(&body);
  for (Operation *op : ordered)
    inner.clone(*op, mapping);
  SmallVector<Value> yielded;
  for (Value output : outputs)
    yielded.push_back(mapping.lookup(output));
  YieldOp::create(inner, loc, yielded);
  for (auto [output, result] : llvm::zip_equal(outputs, layer.getOutputs()))
    formed[output] = result;
  return success();
}
} // namespace
} // namespace layers

namespace {
LogicalResult formLayers(func::FuncOp function) {
  layers::ContentOps content(function);
  auto plans = layers::findLayers(function, content);
  if (failed(plans))
    return failure();
  layers::LayerBuilder builder(function, content, *plans);
  for (auto [i, plan] : llvm::enumerate(*plans))
    if (failed(builder.build(plan, i)))
      return failure();
  Operation *terminator = function.getBody().front().getTerminator();
  for (OpOperand &result : terminator->getOpOperands()) {
    Value value = builder.replacement(result.get());
    if (!value)
      return function.emitError() << (result.getOperandNumber() == 0 ? "the logits"
                                                                     : "the routers' loss")
                                  << " do not depend on the token ids";
    result.set(value);
  }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
  return success();
}

struct FormLayersPass : impl::FormLayersPassBase<FormLayersPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(formLayers(function)))
        return signalPassFailure();
  }
};
} // namespace
} // namespace omnibal
