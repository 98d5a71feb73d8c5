//===- Freeze.cpp - Marks parameters that do not train -----------------------------------===//
#include "dialects/omnibal/analysis/LayerGraph.h"
#include "passes/layers/ModuleWords.h"
#include "passes/layers/Passes.h"
#include "llvm/Support/Regex.h"

namespace omnibal {
#define GEN_PASS_DEF_FREEZE
#include "passes/layers/Passes.h.inc"
} // namespace omnibal

using namespace mlir;
using namespace omnibal;

namespace {
struct FreezePass : omnibal::impl::FreezeBase<FreezePass> {
  using FreezeBase::FreezeBase;

  void runOnOperation() override {
    FailureOr<LayerGraph> graph = LayerGraph::get(getOperation(), "omnibal-freeze");
    if (failed(graph))
      return signalPassFailure();
    // Everything is decided before anything changes.
    llvm::SetVector<ParameterOp> frozen;
    if (failed(collectParts(*graph, frozen)) || failed(collectMatches(frozen)))
      return signalPassFailure();
    bool trains = llvm::any_of(getOperation().getOps<ParameterOp>(), [&](ParameterOp parameter) {
      return !parameter.getFrozen() && !frozen.contains(parameter);
    });
    if (!trains) {
      getOperation().emitError() << "nothing is left to train: every parameter is frozen";
      return signalPassFailure();
    }
    for (ParameterOp parameter : frozen)
      parameter.setFrozen(true);
  }

  LogicalResult collectParts(const LayerGraph &graph, llvm::SetVector<ParameterOp> &frozen) {
    for (const std::string &name : components) {
      std::optional<LayerKind> component = symbolizeLayerKind(name);
      if (!component || *component == LayerKind::Head)
        return getOperation().emitError() << "omnibal-freeze: unknown component '" << name
                                          << "'; known are vision, projector and language";
      bool found = false;
      for (LayerOp layer : graph.layers) {
        if (layers::componentOf(layer.getKind()) != *component)
          continue;
        found = true;
        for (unsigned i = 0, end = layer.getParameters().size(); i < end; ++i)
          frozen.insert(graph.getParameter(layer, i));
      }
      if (!found)
        return getOperation().emitError()
               << "omnibal-freeze: the model has no layer of component '" << name << "'";
    }
    return success();
  }

  LogicalResult collectMatches(llvm::SetVector<ParameterOp> &frozen) {
    if (match.empty())
      return success();
    llvm::Regex expression(match);
    std::string problem;
    if (!expression.isValid(problem))
      return getOperation().emitError()
             << "omnibal-freeze: '" << match << "' is not a regular expression: " << problem;
    bool found = false;
    for (auto parameter : getOperation().getOps<ParameterOp>()) {
      if (!expression.match(parameter.getSymName()))
        continue;
      found = true;
      frozen.insert(parameter);
    }
    if (!found)
      return getOperation().emitError()
             << "omnibal-freeze: no parameter's name matches '" << match << "'";
    return success();
  }
};
} // namespace
