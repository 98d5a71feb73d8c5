//===- SelectLogits.cpp - omnibal-select-logits ------------------------------------------===//
#include "dialects/omnibal/ir/RouterLoss.h"
#include "passes/raise/Passes.h"
#include "passes/raise/match/Probe.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_SELECTLOGITSPASS
#include "passes/raise/Passes.h.inc"

namespace {

/// Number of the result with the logits; none if no result has their shape.
std::optional<unsigned> findLogits(func::FuncOp function) {
  Operation *terminator = function.getBody().front().getTerminator();
  std::optional<unsigned> best;
  size_t bestOps = 0;
  for (unsigned i = 0; i < terminator->getNumOperands(); ++i) {
    SymbolicShape shape = raise::shapeOf(terminator->getOperand(i));
    if (shape.size() != 3 || !shape[0].isOne() || shape[1] != SymbolicDim::tokens() ||
        !shape[2].isStatic() ||
        !isa<FloatType>(raise::typeOf(terminator->getOperand(i)).getElementType()))
      continue;
    auto name = function.getResultAttrOfType<StringAttr>(i, "omnibal.output");
    if (name && name.getValue() == "logits")
      return i;
    size_t ops = raise::backwardOps(terminator->getOperand(i)).size();
    if (ops > bestOps) {
      best = i;
      bestOps = ops;
    }
  }
  return best;
}

/// Number of the result with the balancing loss of routers, where it counts for anything; none
/// without.
FailureOr<std::optional<unsigned>> findRouterLoss(func::FuncOp function) {
  auto coefficient = function->getParentOfType<ModuleOp>()->getAttrOfType<FloatAttr>(
      routerLossCoefficientAttrName);
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    auto name = function.getResultAttrOfType<StringAttr>(i, "omnibal.output");
    if (!name || name.getValue() != routerLossOutput)
      continue;
    if (!coefficient)
      return function.emitError() << "the graph gives a " << routerLossOutput
                                  << ", but its metadata do not say how "
                                  << "much of it counts (" << routerLossCoefficientAttrName
                                  << "); give --router-loss-coefficient X, 0 to train without it";
    if (coefficient.getValueAsDouble() == 0)
      return std::optional<unsigned>();
    auto type = dyn_cast<RankedTensorType>(function.getResultTypes()[i]);
    if (!type || !type.getElementType().isF32() || type.getRank() != 0)
      return function.emitError() << "the graph output " << routerLossOutput << " is "
                                  << function.getResultTypes()[i] << ", not one float32 number";
    return std::optional<unsigned>(i);
  }
  if (coefficient && coefficient.getValueAsDouble() != 0)
    return function.emitError()
           << "a coefficient of the routers' loss is given, but the graph has no output "
           << routerLossOutput << "; export the model again, with output_router_logits in its "
           << "configuration";
  return std::optional<unsigned>();
}

/// These results, in this order, are all that is left.
void keepResults(func::FuncOp function, ArrayRef<unsigned> kept) {
  Operation *terminator = function.getBody().front().getTerminator();
  SmallVector<Value> values;
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  for (unsigned i : kept) {
    values.push_back(terminator->getOperand(i));
    types.push_back(function.getResultTypes()[i]);
    attributes.push_back(function.getResultAttrDict(i));
  }
  terminator->setOperands(values);
  function.removeResAttrsAttr();
  function.setType(FunctionType::get(function.getContext(), function.getArgumentTypes(), types));
  for (auto [i, dictionary] : llvm::enumerate(attributes))
    function.setResultAttrs(i, dictionary);
}

struct SelectLogitsPass : impl::SelectLogitsPassBase<SelectLogitsPass> {
  using SelectLogitsPassBase::SelectLogitsPassBase;

  void runOnOperation() override {
    if (double coefficient = 0; !routerLossCoefficient.empty()) {
      if (StringRef(routerLossCoefficient).getAsDouble(coefficient) || coefficient < 0) {
        getOperation().emitError("omnibal-select-logits: router-loss-coefficient must be a number "
                                 ">= 0, not ")
            << routerLossCoefficient;
        return signalPassFailure();
      }
      getOperation()->setAttr(routerLossCoefficientAttrName,
                              Builder(&getContext()).getF64FloatAttr(coefficient));
    }
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      std::optional<unsigned> logits = findLogits(function);
      if (!logits) {
        function.emitError() << "no graph output is a tensor of logits [1, N, W] over all tokens; "
                             << "export the logits of all tokens with a dynamic sequence length";
        return signalPassFailure();
      }
      FailureOr<std::optional<unsigned>> routers = findRouterLoss(function);
      if (failed(routers))
        return signalPassFailure();
      SmallVector<unsigned> kept{*logits};
      if (*routers)
        kept.push_back(**routers);
      keepResults(function, kept);
      eliminateDeadAndEqual(function);
    }
  }
};
} // namespace
} // namespace omnibal
