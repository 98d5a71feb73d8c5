//===- VerifyLayouts.cpp - omnibal-verify-layouts: can parts run these layers? ---------------===//
//
// Layers without layouts are left alone. Shares no code with what chooses layouts. Constraints:
//   layout_c1  an op has as many omnibal.reads as operands and as many omnibal.layouts as results
//   layout_c2  an op runs in one of the four ways that its rule allows (Ways.h)
//   layout_c3  units and inner of a split fit the dimension, and the op divides it there
//   layout_c4  omnibal.borders has a layout for each input and output of the layer, whole or split;
//              layers that make and read a value agree, and what others read is whole
//   layout_c5  a parameter is read as it is held, whole if it is copied, partial if it is whole,
//              anyhow if it is whole and the reader has no gradient; omnibal.held is whole, copied
//              or a split that fits
//   layout_c6  losses and predictions are made whole or split along tokens, and given whole or as
//              they are made
//   layout_c7  where parts are replicas, layers have layouts, and parameters are held copied
//
//===-------------------------------------------------------------------------------------------===//
#include "dialects/omnibal/ir/Layouts.h"
#include "passes/shard/LayerLayouts.h"
#include "passes/shard/Passes.h"
#include "passes/shard/Ways.h"

using namespace mlir;
using namespace omnibal;
using namespace omnibal::shard;

namespace omnibal {
#define GEN_PASS_DEF_VERIFYLAYOUTS
#include "passes/shard/Passes.h.inc"
} // namespace omnibal

namespace {

class LayerCheck {
public:
  explicit LayerCheck(LayerOp layer) : layer(layer) {}

  LogicalResult run() {
    if (failed(checkBorders()))
      return failure();
    for (Operation &op : layer.getBody().front().without_terminator())
      if (failed(checkOp(op)))
        return failure();
    if (failed(checkParameters()))
      return failure();
    return checkLoss();
  }

private:
  LogicalResult checkBorders();
  LogicalResult checkOp(Operation &op);
  LogicalResult checkParameters();
  LogicalResult checkLoss();
  LayoutAttr outputBorder(size_t output) { return borders[layer.getInputs().size() + output]; }

  LayerOp layer;
  SmallVector<LayoutAttr> borders;
};

LogicalResult LayerCheck::checkBorders() {
  SmallVector<Value> values(layer.getInputs());
  llvm::append_range(values, layer.getOutputs());
  auto found = findLayouts(layer, bordersAttrName, values.size());
  if (!found) // layout_c4
    return layer.emitOpError() << "layout_c4: needs a layout for each of " << values.size()
                               << " inputs and outputs in " << bordersAttrName;
  borders = *found;
  for (auto [value, layout] : llvm::zip_equal(values, borders)) {
    if (!layout.isWhole() && !layout.isSplit()) // layout_c4
      return layer.emitOpError() << "layout_c4: a border is whole or split, not " << layout;
    if (layout.isSplit() && !outerOf(layout, shapeOf(value))) // layout_c3
      return layer.emitOpError() << "layout_c3: " << layout << " does not fit " << value.getType();
  }
  return success();
}

LogicalResult LayerCheck::checkOp(Operation &op) {
  auto reads = findLayouts(&op, readsAttrName, op.getNumOperands());
  auto layouts = findLayouts(&op, layoutsAttrName, op.getNumResults());
  if (!reads || !layouts) // layout_c1
    return op.emitOpError() << "layout_c1: needs a layout for each of " << op.getNumOperands()
                            << " operands in " << readsAttrName << " and of " << op.getNumResults()
                            << " results in " << layoutsAttrName;
  std::string fault = findFault(&op, *reads, *layouts); // layout_c2, layout_c3
  if (!fault.empty())
    return op.emitOpError(fault);
  return success();
}

/// A parameter moves only for nothing.
LogicalResult LayerCheck::checkParameters() {
  for (auto [i, parameter] : llvm::enumerate(layer.getParameters())) {
    auto held = findHeld(parameter);
    const bool fits =
        held && !held->isPartial() && (!held->isSplit() || outerOf(*held, shapeOf(parameter)));
    if (!fits) // layout_c5
      return layer.emitOpError() << "layout_c5: " << heldAttrName << " of parameter " << i
                                 << " must be whole, copied, or a split that fits "
                                 << parameter.getType();
    BlockArgument argument =
        layer.getBody().front().getArgument(static_cast<unsigned>(layer.getInputs().size() + i));
    for (OpOperand &use : argument.getUses()) {
      Operation *user = use.getOwner();
      if (user == layer.getBody().front().getTerminator()) // layout_c5
        return layer.emitOpError() << "layout_c5: yields parameter " << i;
      LayoutAttr read =
          (*findLayouts(user, readsAttrName, user->getNumOperands()))[use.getOperandNumber()];
      const bool isFree =
          read == *held || (held->isCopied() && read.isWhole()) ||
          (held->isWhole() && (read.isPartial() || user->hasTrait<HasZeroGradient>()));
      if (!isFree) // layout_c5
        return user->emitOpError() << "layout_c5: reads parameter " << i << " of its layer as "
                                   << read << ", but parts hold it as " << *held;
    }
  }
  return success();
}

/// Where a gradient begins, a copy on each part would count as many times.
LogicalResult LayerCheck::checkLoss() {
  auto names = layer->getAttrOfType<ArrayAttr>("omnibal.outputs");
  Operation *yield = layer.getBody().front().getTerminator();
  for (size_t i = 0; names && i < names.size(); ++i) {
    if (cast<StringAttr>(names[i]).getValue() == "output")
      continue;
    LayoutAttr border = outputBorder(i);
    auto made = dyn_cast<OpResult>(yield->getOperand(i));
    LayoutAttr layout =
        made ? (*findLayouts(made.getOwner(), layoutsAttrName,
                             made.getOwner()->getNumResults()))[made.getResultNumber()]
             : border;
    const bool isMadeWell = layout.isWhole() || layout.isSplitAlongTokens();
    if (!isMadeWell || !(border.isWhole() || border == layout)) // layout_c6
      return layer.emitOpError() << "layout_c6: output " << i << " (" << names[i]
                                 << ") must be made whole or split along tokens, and given whole "
                                    "or as it is made, not "
                                 << layout << " and " << border;
  }
  return success();
}

/// As the layer's border says; whole if it has none.
LayoutAttr borderOf(LayerOp layer, size_t number) {
  auto borders =
      findLayouts(layer, bordersAttrName, layer.getInputs().size() + layer.getOutputs().size());
  return borders ? (*borders)[number] : LayoutAttr::whole(layer.getContext());
}

/// What passes between layers, and out of the last ones.
LogicalResult checkBetween(LayerOp layer) {
  for (auto [i, output] : llvm::enumerate(layer.getOutputs())) {
    LayoutAttr given = borderOf(layer, layer.getInputs().size() + i);
    for (OpOperand &use : output.getUses()) {
      auto reader = dyn_cast<LayerOp>(use.getOwner());
      LayoutAttr read =
          reader ? borderOf(reader, use.getOperandNumber()) : LayoutAttr::whole(layer.getContext());
      if (read != given) // layout_c4
        return use.getOwner()->emitOpError()
               << "layout_c4: reads output " << i << " of layer " << layer.getName() << " as "
               << read << ", but parts have it as " << given;
    }
  }
  return success();
}

/// Their gradients are summed over all replicas, whoever has made how much of them.
LogicalResult checkReplicas(LayerOp layer) {
  if (!hasLayouts(layer))
    return layer.emitOpError()
           << "layout_c7: needs layouts, as the parts that run it are replicas, "
              "which sum what each of them has of gradients";
  for (auto [i, parameter] : llvm::enumerate(layer.getParameters()))
    if (auto held = findHeld(parameter); !held || !held->isCopied()) // layout_c7
      return layer.emitOpError() << "layout_c7: holds parameter " << i
                                 << " otherwise than copied, but its parts are replicas";
  return success();
}

struct VerifyLayoutsPass : omnibal::impl::VerifyLayoutsBase<VerifyLayoutsPass> {
  void runOnOperation() override {
    auto module = dyn_cast<ModuleOp>(getOperation());
    const bool ofReplicas = module && areReplicas(module);
    WalkResult result = getOperation()->walk([&](LayerOp layer) {
      const bool isWrong = (ofReplicas && failed(checkReplicas(layer))) ||
                           (hasLayouts(layer) && failed(LayerCheck(layer).run())) ||
                           failed(checkBetween(layer));
      return isWrong ? WalkResult::interrupt() : WalkResult::skip();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
