//===- MaskKinds.h - What an attention mask means ----------------------------------------===//
#ifndef PASSES_RAISE_MASKKINDS_H
#define PASSES_RAISE_MASKKINDS_H

#include "passes/raise/Dependence.h"

namespace omnibal::raise {

struct MaskClass {
  MaskKind kind = MaskKind::Full;
  int64_t window = 0;                    ///< sliding: query - key < window
  std::optional<unsigned> typesArgument; ///< prefix: the graph input with the token types
};

/// Classifies masks by evaluation; results are kept per mask value.
class MaskClassifier {
public:
  MaskClassifier(mlir::func::FuncOp function, Dependence &dependence)
      : function(function), dependence(dependence) {}

  /// `user` is the op that applies the mask, for messages.
  llvm::FailureOr<MaskClass> classify(mlir::Value mask, mlir::Operation *user);

  /// A mask of attention among vision rows, [4V, 4V] say: the graph input whose equal numbers see
  /// each other (pictures or windows), or an error.
  llvm::FailureOr<unsigned> classifySegments(mlir::Value mask, mlir::Operation *user);

  /// An error at `user` unless every element of `control`, which depends on masks and positions, is
  /// `expected` for every sample: `user` then does nothing.
  llvm::LogicalResult requireEverywhere(mlir::Value control, bool expected, mlir::Operation *user);

private:
  llvm::FailureOr<MaskClass> evaluateAndClassify(mlir::Value mask, mlir::Operation *user);

  mlir::func::FuncOp function;
  Dependence &dependence;
  llvm::DenseMap<mlir::Value, MaskClass> known;
  llvm::DenseMap<mlir::Value, unsigned> knownSegments;
};

} // namespace omnibal::raise
#endif // PASSES_RAISE_MASKKINDS_H
