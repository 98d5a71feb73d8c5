//===- Probe.h - Evaluation of masks and positions for chosen lengths --------------------===//
#ifndef PASSES_RAISE_MATCH_PROBE_H
#define PASSES_RAISE_MATCH_PROBE_H

#include "dialects/omnibal/interpreter/Interpreter.h"
#include "passes/raise/match/Dependence.h"
#include <map>

namespace omnibal::raise {

/// Constants of more elements are tables, not facts about a mask.
constexpr int64_t mostConstantElements = 16;

/// What the graph inputs hold while a subgraph is evaluated for N tokens.
struct ProbeInputs {
  int64_t tokens = 0;
  int64_t tiles = 1;
  /// Position ids and, where `replaceRanges`, the values of ranges over the tokens; empty: 0, 1, ..
  llvm::SmallVector<int64_t> positions;
  bool replaceRanges = false;
  /// Values of visibility and segment inputs by argument number; others are 1.
  llvm::DenseMap<unsigned, llvm::SmallVector<int64_t>> visibility;
  /// Integers that stand for others in constants of a few elements.
  std::map<int64_t, int64_t> substitutes;
  /// Visibility inputs that default to 1 have this length instead of N (looked up by position).
  int64_t visibilityLength = 0;
};

/// Evaluates a value that depends on auxiliary inputs only. A rank-4 mask input is bound to a
/// causal mask. Fails with a diagnostic of the interpreter.
llvm::FailureOr<HostTensor> probe(mlir::func::FuncOp function, mlir::Value value,
                                  const ProbeInputs &inputs);

/// Ops that the value is computed from, shape ops as leaves.
llvm::SetVector<mlir::Operation *> backwardOps(mlir::Value value);

} // namespace omnibal::raise
#endif // PASSES_RAISE_MATCH_PROBE_H
