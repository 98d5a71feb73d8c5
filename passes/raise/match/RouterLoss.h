//===- RouterLoss.h - What only the balancing loss of routers is computed from -----------===//
#ifndef PASSES_RAISE_MATCH_ROUTERLOSS_H
#define PASSES_RAISE_MATCH_ROUTERLOSS_H

#include "passes/raise/match/Match.h"
#include "llvm/ADT/DenseSet.h"

namespace omnibal::raise {

/// Returns the ops of the function's block that the logits, its first result, do not need.
llvm::DenseSet<mlir::Operation *> opsBesideLogits(mlir::func::FuncOp function);

/// True if the op sums over the tokens of the micro-batch alone, as `omnibal-raise-router-loss`
/// leaves it.
bool sumsRealTokens(ReduceOp op);

/// Returns the dimension of the op's input that it reduces and whose size depends on N or V; none
/// if there is none.
std::optional<int64_t> reducedRows(ReduceOp op);

} // namespace omnibal::raise
#endif // PASSES_RAISE_MATCH_ROUTERLOSS_H
