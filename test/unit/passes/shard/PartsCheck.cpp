//===- PartsCheck.cpp ------------------------------------------------------------------------===//
#include "test/unit/passes/shard/PartsCheck.h"
#include "dialects/omnibal/ir/OmnibalCrossOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Verifier.h"
#include "passes/differentiate/Autodiff.h"
#include "passes/shard/ApplyLayouts.h"
#include "passes/shard/LayerLayouts.h"
#include <cmath>

using namespace mlir;

namespace omnibal::test {

static bool isFloat(Value value) {
  return isa<FloatType>(cast<RankedTensorType>(value.getType()).getElementType());
}

PartsCheck::PartsCheck(LayerOp layer, ArrayRef<HostTensor> arguments, int64_t tiles, int64_t tokens)
    : layer(layer), arguments(arguments) {
  options.tiles = tiles;
  options.tokens = tokens;
  options.float64 = true;
}

/// A loss begins the sweep itself, and a log-sum-exp has no gradient.
bool PartsCheck::isSeeded(Value output) {
  Operation *op = output.getDefiningOp();
  const bool isLoss = op && isa<CrossEntropyOp, LinearCrossEntropyOp, PreferenceLossOp>(op);
  const bool isLogSum = op && isa<AttentionOp, CrossAttentionOp>(op) && output != op->getResult(0);
  return isFloat(output) && !isLoss && !isLogSum;
}

SmallVector<LayoutAttr> PartsCheck::argumentLayouts() {
  const size_t inputs = layer.getInputs().size();
  auto borders =
      *shard::findLayouts(layer, shard::bordersAttrName, inputs + layer.getOutputs().size());
  SmallVector<LayoutAttr> layouts(ArrayRef<LayoutAttr>(borders).take_front(inputs));
  for (Value parameter : layer.getParameters())
    layouts.push_back(*shard::findHeld(parameter));
  for (LayoutAttr &layout : layouts)
    layout = layout.at(options.tiles, options.tokens);
  return layouts;
}
SmallVector<LayoutAttr> PartsCheck::outputLayouts() {
  const size_t inputs = layer.getInputs().size();
  auto borders =
      *shard::findLayouts(layer, shard::bordersAttrName, inputs + layer.getOutputs().size());
  SmallVector<LayoutAttr> layouts;
  for (LayoutAttr layout : ArrayRef<LayoutAttr>(borders).drop_front(inputs))
    layouts.push_back(layout.at(options.tiles, options.tokens));
  return layouts;
}

/// Appends the gradients of all float arguments to what the function returns.
std::string PartsCheck::addGradients(func::FuncOp function, SmallVectorImpl<bool> &present) {
  Block &block = function.getBody().front();
  Operation *end = block.getTerminator();
  SmallVector<Operation *> ops;
  for (Operation &op : block.without_terminator())
    ops.push_back(&op);
  SmallVector<Value> results(end->getOperands()), floats;
  for (BlockArgument argument : block.getArguments())
    if (isFloat(argument))
      floats.push_back(argument);
  const auto active = findActiveValues(ops, floats);
  // A move at the end hides which output is a loss; the layer's own yield tells.
  SmallVector<std::pair<Value, Value>> given;
  Operation *yield = layer.getBody().front().getTerminator();
  for (auto [output, own] : llvm::zip_equal(yield->getOperands(), end->getOperands()))
    if (isSeeded(output))
      given.push_back({own, block.addArgument(own.getType(), own.getLoc())});
  OpBuilder builder(end);
  auto gradients = buildGradients(builder, ops, given, active);
  if (failed(gradients))
    return "has no gradient";
  for (Value each : floats) {
    Value gradient = gradients->of.lookup(each);
    present.push_back(bool(gradient));
    if (gradient)
      results.push_back(gradient);
  }
  end->setOperands(results);
  function.setType(
      builder.getFunctionType(block.getArgumentTypes(), TypeRange(ValueRange(results))));
  return "";
}

std::string PartsCheck::prepare() {
  OpBuilder builder(layer.getContext());
  OwningOpRef<ModuleOp> module = ModuleOp::create(layer.getLoc());
  builder.setInsertionPointToEnd(module->getBody());
  Block &body = layer.getBody().front();
  Operation *yield = body.getTerminator();
  auto function = func::FuncOp::create(
      builder, layer.getLoc(), "layer",
      builder.getFunctionType(body.getArgumentTypes(), yield->getOperandTypes()));
  Block *block = function.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  IRMapping mapping;
  mapping.map(body.getArguments(), block->getArguments());
  for (Operation &op : body.without_terminator())
    builder.clone(op, mapping);
  SmallVector<Value> outputs;
  for (Value output : yield->getOperands())
    outputs.push_back(mapping.lookup(output));
  func::ReturnOp::create(builder, layer.getLoc(), outputs);
  Interpreter interpreter(options);
  interpreter.batchValues = batchValues;
  auto values = interpreter.run(*block, arguments);
  if (failed(values))
    return "the layer does not run";
  if (!checksGradients) {
    wanted = *values;
    return "";
  }
  for (auto [output, value] : llvm::zip_equal(yield->getOperands(), *values)) {
    if (!isSeeded(output))
      continue;
    HostTensor &seed = seeds.emplace_back(value);
    for (double &each : seed.floats)
      each = std::uniform_real_distribution<double>(-1, 1)(random);
  }
  if (std::string fault = addGradients(function, wantedGradients); !fault.empty())
    return fault;
  SmallVector<HostTensor> all(arguments);
  all.append(seeds);
  values = interpreter.run(*block, all);
  if (failed(values))
    return "the layer's gradients do not run";
  wanted = *values;
  return "";
}

/// Summands of a partial value are random, and add up to it.
std::vector<HostTensor> PartsCheck::divide(const HostTensor &value, LayoutAttr layout,
                                           int64_t parts) {
  std::vector<HostTensor> held = dividedAmong(parts, value, layout);
  if (layout.isPartial())
    for (int64_t part = 1; part < parts; ++part)
      for (size_t i = 0; i < value.floats.size(); ++i) {
        const double moved = std::uniform_real_distribution<double>(-1, 1)(random);
        held[0].floats[i] -= moved;
        held[part].floats[i] += moved;
      }
  return held;
}

std::string PartsCheck::compare(const std::string &what, ArrayRef<HostTensor> held,
                                const HostTensor &wanted, LayoutAttr layout) {
  if (layout.isWhole() || layout.isCopied())
    for (const HostTensor &each : held)
      if (each.floats != held[0].floats || each.ints != held[0].ints)
        return what + " differs between parts";
  const HostTensor value = joined(held, wanted.shape, layout);
  if (value.ints != wanted.ints || value.floats.size() != wanted.floats.size())
    return what + " differs";
  double largest = 1;
  for (double each : wanted.floats)
    if (std::isfinite(each))
      largest = std::max(largest, std::abs(each));
  for (size_t i = 0; i < value.floats.size(); ++i)
    if (value.floats[i] != wanted.floats[i] && // infinite ones too
        !(std::abs(value.floats[i] - wanted.floats[i]) <= 1e-12 * largest))
      return what + " differs: element " + std::to_string(i) + " is " +
             std::to_string(value.floats[i]) + ", not " + std::to_string(wanted.floats[i]);
  return "";
}

/// Whether parts have shares of tiles or tokens, and nothing addresses rows among these, whose
/// first one no symbol tells.
bool PartsCheck::hasOpenShares() {
  bool isOpen = false, isAddressed = false;
  layer->walk([&](Operation *op) {
    for (StringRef name : {StringRef(shard::readsAttrName), StringRef(shard::layoutsAttrName),
                           StringRef(shard::bordersAttrName)})
      if (auto list = op->getAttrOfType<ArrayAttr>(name))
        for (auto layout : list.getAsRange<LayoutAttr>())
          isOpen |= layout.isSplit() && layout.getUnitsOf() != UnitsOf::Number;
    if (!isa<EmbeddingOp, ImageMergeOp>(op))
      return;
    const unsigned table = isa<EmbeddingOp>(op) ? 0 : 1;
    auto reads = shard::findLayouts(op, shard::readsAttrName, op->getNumOperands());
    const int64_t last = cast<RankedTensorType>(op->getOperand(table).getType()).getRank() - 1;
    isAddressed |= reads && (*reads)[table].isSplit() && (*reads)[table].getDim() < last &&
                   (*reads)[table].getUnitsOf() != UnitsOf::Number;
  });
  return isOpen && !isAddressed;
}

std::string PartsCheck::run(int64_t parts) {
  std::string fault = runBodies(parts, std::pair(options.tiles, options.tokens));
  if (!fault.empty() || !hasOpenShares())
    return fault;
  fault = runBodies(parts, std::nullopt);
  return fault.empty() ? fault : "with symbols: " + fault;
}

std::string PartsCheck::runBodies(int64_t parts, const Microbatch &sizes) {
  OpBuilder builder(layer.getContext());
  OwningOpRef<ModuleOp> module = ModuleOp::create(layer.getLoc());
  std::vector<Block *> blocks;
  PartsInterpreter interpreter(parts, options);
  for (int64_t part = 0; part < parts; ++part) {
    builder.setInsertionPointToEnd(module->getBody());
    shard::PartChoice choice{parts, part, sizes};
    auto function = shard::applyLayouts(builder, layer, "part" + std::to_string(part), choice);
    if (failed(function))
      return "part " + std::to_string(part) + " is not built";
    SmallVector<bool> present;
    if (checksGradients) {
      if (std::string fault = addGradients(*function, present); !fault.empty())
        return fault;
      if (present != wantedGradients)
        return "other arguments have gradients";
    }
    if (failed(verify(*function)))
      return "part " + std::to_string(part) + " is invalid";
    blocks.push_back(&function->getBody().front());
    interpreter.of(part).batchValues = batchValues;
  }

  SmallVector<LayoutAttr> own = argumentLayouts(), outputs = outputLayouts();
  Operation *yield = layer.getBody().front().getTerminator();
  std::vector<SmallVector<HostTensor>> given(parts);
  auto give = [&](const HostTensor &value, LayoutAttr layout) {
    for (auto [list, held] : llvm::zip_equal(given, divide(value, layout, parts)))
      list.push_back(held);
  };
  for (auto [value, layout] : llvm::zip_equal(arguments, own))
    give(value, layout);
  for (size_t i = 0, seed = 0; checksGradients && i < outputs.size(); ++i)
    if (isSeeded(yield->getOperand(i)))
      give(seeds[seed++], outputs[i].getDual());
  auto results = interpreter.run(blocks, given);
  if (failed(results))
    return "the parts do not run";
  sent = 0;
  for (int64_t each : interpreter.sent)
    sent += each;

  SmallVector<LayoutAttr> layouts(outputs);
  SmallVector<std::string> names;
  for (size_t i = 0; i < outputs.size(); ++i)
    names.push_back("output " + std::to_string(i));
  for (size_t i = 0, number = 0; checksGradients && i < own.size(); ++i)
    if (isFloat(layer.getBody().front().getArgument(i)) && wantedGradients[number++]) {
      layouts.push_back(own[i].getDual());
      names.push_back("gradient of argument " + std::to_string(i));
    }
  for (size_t i = 0; i < layouts.size(); ++i) {
    std::vector<HostTensor> held;
    for (const auto &list : *results)
      held.push_back(list[i]);
    if (std::string fault = compare(names[i], held, wanted[i], layouts[i]); !fault.empty())
      return fault;
  }
  return "";
}

} // namespace omnibal::test
