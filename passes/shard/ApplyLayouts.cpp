//===- ApplyLayouts.cpp - The body of a part, with its moves ---------------------------------===//
#include "passes/shard/ApplyLayouts.h"
#include "dialects/omnibal/ir/FactorRule.h"
#include "dialects/omnibal/ir/Layouts.h"
#include "dialects/omnibal/ir/OmnibalPartOps.h"
#include "passes/shard/LayerLayouts.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace omnibal::shard {
namespace {

class PartBody {
public:
  PartBody(OpBuilder &builder, LayerOp layer, const PartChoice &choice,
           SymbolTableCollection &symbols)
      : builder(builder), layer(layer), choice(choice), symbols(symbols) {}

  FailureOr<func::FuncOp> run(StringRef name);

private:
  /// What the parts have of a value of the layer.
  struct Native {
    LayoutAttr layout;
    Value value;
    llvm::SmallMapVector<Attribute, Value, 2> moved;
  };

  LogicalResult begin(StringRef name);
  LogicalResult build(Operation &op);
  LogicalResult finish();
  RankedTensorType wholeType(Value value);
  FailureOr<RankedTensorType> ownType(Value value, LayoutAttr layout);
  FailureOr<Value> read(Value value, LayoutAttr layout);
  LayoutAttr atMicrobatch(LayoutAttr layout) {
    return choice.microbatch ? layout.at(choice.microbatch->first, choice.microbatch->second)
                             : layout;
  }
  /// Layouts of one of the attributes, in the micro-batch.
  FailureOr<SmallVector<LayoutAttr>> layoutsOf(Operation *op, StringRef attribute, size_t count);

  OpBuilder &builder;
  LayerOp layer;
  const PartChoice &choice;
  SymbolTableCollection &symbols;
  func::FuncOp function;
  SmallVector<LayoutAttr> borders;
  llvm::DenseMap<Value, Native> values;
};

RankedTensorType PartBody::wholeType(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  auto shape = getSymbolicShape(type);
  if (!choice.microbatch || !shape)
    return type;
  SmallVector<int64_t> sizes;
  for (const SymbolicDim &dim : *shape)
    sizes.push_back(dim.evaluate(choice.microbatch->first, choice.microbatch->second));
  return RankedTensorType::get(sizes, type.getElementType());
}

FailureOr<RankedTensorType> PartBody::ownType(Value value, LayoutAttr layout) {
  RankedTensorType whole = wholeType(value);
  if (RankedTensorType type = partType(whole, layout, choice.parts, choice.part))
    return type;
  return layer.emitOpError() << "has no body for a part: " << layout << " does not fit " << whole;
}

FailureOr<SmallVector<LayoutAttr>> PartBody::layoutsOf(Operation *op, StringRef attribute,
                                                       size_t count) {
  auto found = findLayouts(op, attribute, count);
  if (!found)
    return op->emitOpError() << "needs " << count << " layouts as " << attribute
                             << "; omnibal-verify-layouts says more";
  for (LayoutAttr &layout : *found)
    layout = atMicrobatch(layout);
  return *found;
}

LogicalResult PartBody::begin(StringRef name) {
  auto found =
      layoutsOf(layer, bordersAttrName, layer.getInputs().size() + layer.getOutputs().size());
  if (failed(found))
    return failure();
  borders = *found;
  function = func::FuncOp::create(builder, layer.getLoc(), name,
                                  builder.getFunctionType(TypeRange(), TypeRange()));
  Block *block = function.addEntryBlock();
  for (auto [i, argument] : llvm::enumerate(layer.getBody().front().getArguments())) {
    const bool isInput = i < layer.getInputs().size();
    LayoutAttr layout = isInput ? borders[i] : LayoutAttr();
    if (!isInput) {
      auto held = findHeld(layer.getParameters()[i - layer.getInputs().size()], symbols);
      if (!held)
        return layer.emitOpError() << "has a parameter whose " << heldAttrName << " is no layout";
      layout = choice.sumsGradients && held->isCopied() ? LayoutAttr::whole(layer.getContext())
                                                        : atMicrobatch(*held);
    }
    FailureOr<RankedTensorType> type = ownType(argument, layout);
    if (failed(type))
      return failure();
    values[argument] = {layout, block->addArgument(*type, argument.getLoc()), {}};
  }
  builder.setInsertionPointToEnd(block);
  return success();
}

FailureOr<Value> PartBody::read(Value value, LayoutAttr layout) {
  Native &native = values.find(value)->second;
  RankedTensorType whole = wholeType(value);
  if (areAlike(whole, layout, native.layout))
    return native.value;
  Value &moved = native.moved[layout];
  if (!moved) {
    FailureOr<RankedTensorType> type = ownType(value, layout);
    if (failed(type))
      return failure();
    auto [from, source] = std::pair(native.layout, native.value);
    for (auto &[other, copy] : native.moved)
      if (copy && isNearer(cast<LayoutAttr>(other), from, layout, choice.parts))
        std::tie(from, source) = std::pair(cast<LayoutAttr>(other), copy);
    moved = ReshardOp::create(builder, value.getLoc(), *type, source, from, layout, choice.parts,
                              whole);
  }
  return moved;
}

LogicalResult PartBody::build(Operation &op) {
  auto reads = layoutsOf(&op, readsAttrName, op.getNumOperands());
  auto layouts = failed(reads) ? reads : layoutsOf(&op, layoutsAttrName, op.getNumResults());
  if (failed(layouts))
    return failure();
  SmallVector<Value> operands, results;
  SmallVector<RankedTensorType> wholeOperands, wholeResults, types;
  for (auto [operand, layout] : llvm::zip_equal(op.getOperands(), *reads)) {
    FailureOr<Value> value = read(operand, layout);
    if (failed(value))
      return failure();
    operands.push_back(*value);
    wholeOperands.push_back(wholeType(operand));
  }
  for (auto [result, layout] : llvm::zip_equal(op.getResults(), *layouts)) {
    FailureOr<RankedTensorType> type = ownType(result, layout);
    if (failed(type))
      return failure();
    types.push_back(*type);
    wholeResults.push_back(wholeType(result));
  }
  PartOf part{choice.parts, choice.part, *reads, *layouts, wholeOperands, wholeResults, types};
  Operation *last =
      builder.getInsertionBlock()->empty() ? nullptr : &builder.getInsertionBlock()->back();
  auto divided = dyn_cast<FactorOpInterface>(op);
  if (failed(divided ? divided.buildPart(builder, part, operands, results)
                     : buildSameOp(builder, &op, part, operands, results)))
    return failure();
  for (Operation *built = last ? last->getNextNode() : &builder.getInsertionBlock()->front(); built;
       built = built->getNextNode()) {
    built->removeAttr(readsAttrName);
    built->removeAttr(layoutsAttrName);
  }
  for (auto [result, layout, value] : llvm::zip_equal(op.getResults(), *layouts, results))
    values[result] = {layout, value, {}};
  return success();
}

LogicalResult PartBody::finish() {
  Operation *yield = layer.getBody().front().getTerminator();
  SmallVector<Value> results;
  for (auto [i, value] : llvm::enumerate(yield->getOperands())) {
    FailureOr<Value> result = read(value, borders[layer.getInputs().size() + i]);
    if (failed(result))
      return failure();
    results.push_back(*result);
  }
  func::ReturnOp::create(builder, yield->getLoc(), results);
  Block &block = function.getBody().front();
  function.setType(
      builder.getFunctionType(block.getArgumentTypes(), TypeRange(ValueRange(results))));
  return success();
}

FailureOr<func::FuncOp> PartBody::run(StringRef name) {
  OpBuilder::InsertionGuard guard(builder);
  LogicalResult done = begin(name);
  for (Operation &op : layer.getBody().front().without_terminator())
    if (succeeded(done))
      done = build(op);
  if (succeeded(done))
    done = finish();
  if (succeeded(done))
    return function;
  if (function)
    function.erase();
  return failure();
}

} // namespace

FailureOr<func::FuncOp> applyLayouts(OpBuilder &builder, LayerOp layer, StringRef name,
                                     const PartChoice &choice) {
  SymbolTableCollection symbols;
  return PartBody(builder, layer, choice, symbols).run(name);
}

FailureOr<OwningOpRef<LayerOp>> makePartLayer(LayerOp layer, const PartChoice &choice,
                                              SymbolTableCollection &symbols) {
  OwningOpRef<ModuleOp> scratch = ModuleOp::create(layer.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(scratch->getBody());
  PartChoice summed = choice;
  summed.sumsGradients = !areReplicas(layer->getParentOfType<ModuleOp>());
  FailureOr<func::FuncOp> body = PartBody(builder, layer, summed, symbols).run("part");
  if (failed(body))
    return failure();
  OwningOpRef<LayerOp> part(cast<LayerOp>(layer->cloneWithoutRegions()));
  (*part)->removeAttr(bordersAttrName);
  part->getBody().takeBody(body->getBody());
  Operation *end = part->getBody().front().getTerminator();
  builder.setInsertionPoint(end);
  YieldOp::create(builder, end->getLoc(), end->getOperands());
  end->erase();
  return part;
}

} // namespace omnibal::shard
