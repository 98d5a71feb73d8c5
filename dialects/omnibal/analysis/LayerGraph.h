//===- LayerGraph.h - @main in form L or P as a list of layers ---------------------------===//
#ifndef DIALECTS_OMNIBAL_ANALYSIS_LAYERGRAPH_H
#define DIALECTS_OMNIBAL_ANALYSIS_LAYERGRAPH_H

#include "dialects/omnibal/ir/OmnibalOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace omnibal {

/// What an output of a layer is. `omnibal.outputs` says it once a loss is attached.
enum class OutputKind {
  Output,
  Loss,
  Prediction,
  RouterLoss,
  ChosenReward, ///< the results of preference_loss behind the loss
  RejectedReward,
  Preferred
};
constexpr OutputKind outputKinds[] = {OutputKind::Output,       OutputKind::Loss,
                                      OutputKind::Prediction,   OutputKind::RouterLoss,
                                      OutputKind::ChosenReward, OutputKind::RejectedReward,
                                      OutputKind::Preferred};
OutputKind getOutputKind(LayerOp layer, unsigned output);
/// Whether a value of a layer's body leaves it as something else than an activation.
bool leavesAsResult(LayerOp layer, mlir::Value value);
/// Returns the name that `omnibal.outputs` and the roles of functions' results use.
llvm::StringRef nameOf(OutputKind kind);
/// Whether the backward gives the output as well as the evaluation: what a step adds up.
bool isGivenByBackward(OutputKind kind);

struct LayerGraph {
  mlir::func::FuncOp main;
  llvm::SmallVector<LayerOp> layers; ///< in order of @main, which is topological
  mlir::func::ReturnOp result;

  /// The parameter that operand `number` of `layer`'s parameters reads.
  ParameterOp getParameter(LayerOp layer, unsigned number) const;

  /// Checks form L (docs/contract-compiler.md) and reports what is missing as a diagnostic of
  /// `pass`.
  static mlir::FailureOr<LayerGraph> get(mlir::ModuleOp module, llvm::StringRef pass);

private:
  llvm::DenseMap<mlir::StringAttr, ParameterOp> parameters;
};

} // namespace omnibal
#endif // DIALECTS_OMNIBAL_ANALYSIS_LAYERGRAPH_H
