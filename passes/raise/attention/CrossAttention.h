//===- CrossAttention.h - Tokens that attend to pictures -----------------------------------===//
#ifndef PASSES_RAISE_ATTENTION_CROSSATTENTION_H
#define PASSES_RAISE_ATTENTION_CROSSATTENTION_H

#include "passes/raise/match/Probe.h"

namespace omnibal::raise {

/// Raises attention of tokens to rows of pictures, by a graph input that says which pictures each
/// token sees (role Seen). In a packed row a token sees pictures of its own sample only, and the
/// runtime says which.
class CrossAttention {
public:
  explicit CrossAttention(mlir::func::FuncOp function) : function(function), builder(function) {}

  /// True if queries of tokens read keys of pictures.
  static bool isOf(mlir::Value query, mlir::Value key);
  /// Replaces `result` = softmax(scale * q k^T + mask) v, of rank 4; `user` applies the mask.
  llvm::LogicalResult raise(mlir::Operation *user, mlir::Value query, mlir::Value key,
                            mlir::Value value, mlir::Value mask, double scale, mlir::Value result,
                            Dependence &dependence);
  /// Raises factors that are 1 for tokens that see a picture and 0 for others.
  llvm::LogicalResult raiseFactors();

private:
  /// Returns the graph input of role Seen that the value depends on, if it depends on no other
  /// input.
  std::optional<unsigned> seenArgument(mlir::Value value, Dependence &dependence);
  llvm::LogicalResult checkMask(mlir::Operation *user, mlir::Value mask, unsigned seen,
                                int64_t rows);
  /// True if the value, with one number per token, is 1 for tokens that see a picture and 0 for
  /// others.
  bool marksSeeing(mlir::Value value, unsigned seen);
  mlir::Value perToken(mlir::Location loc, llvm::StringRef name);

  mlir::func::FuncOp function;
  mlir::OpBuilder builder;
};

} // namespace omnibal::raise
#endif // PASSES_RAISE_ATTENTION_CROSSATTENTION_H
