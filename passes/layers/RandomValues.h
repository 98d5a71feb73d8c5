//===- RandomValues.h - Dropout and noise in a layer ------------------------------------------===//
#ifndef PASSES_LAYERS_RANDOMVALUES_H
#define PASSES_LAYERS_RANDOMVALUES_H

#include "dialects/omnibal/ir/OmnibalOps.h"
#include "mlir/IR/Builders.h"

namespace omnibal::layers {

/// What one layer draws. The numbers depend on the sample, the place in it, the step, the layer and
/// the order of the draws in it, and not on who computes them; where keys are 0 nothing is random.
class RandomDraws {
public:
  explicit RandomDraws(LayerOp layer);

  /// Fails with a diagnostic unless x is [.., C] whose leading dimensions make N rows, or k V.
  static llvm::LogicalResult check(mlir::Value x);

  /// Each element of x [.., C] is 0 with probability `rate`, and else 1 / (1 - rate) of what it
  /// was.
  mlir::Value dropout(mlir::OpBuilder &builder, mlir::Value x, double rate);

  /// x [.., C] of N tokens, plus numbers that are even in +-alpha / sqrt(L C), for a sample of L
  /// tokens (NEFTune, arXiv 2310.05914).
  mlir::Value addNoise(mlir::OpBuilder &builder, mlir::Value x, double alpha);

private:
  struct Draw {
    mlir::Value uniform; ///< of x's type, in [0, 1)
    mlir::Value isOff;   ///< [.., 1]: nothing is random in this row
  };
  Draw draw(mlir::OpBuilder &builder, mlir::Value x);

  int32_t stream = 0; ///< of the next draw
};

} // namespace omnibal::layers
#endif // PASSES_LAYERS_RANDOMVALUES_H
