//===- OpWays.h - The ways in which an op of a layer may be run -------------------------------===//
//
// Ways.h judges a way; here they are made, from the letters of the layer.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_SHARD_OPWAYS_H
#define PASSES_SHARD_OPWAYS_H

#include "passes/shard/LayerLetters.h"

namespace omnibal::shard {

/// The layouts in which an op reads its operands and gives its results.
struct Way {
  llvm::SmallVector<LayoutAttr> reads, layouts;
  bool operator==(const Way &) const = default;
};

class OpWays {
public:
  explicit OpWays(LayerOp layer);

  /// Everything in one layout.
  Way all(mlir::Operation *op, LayoutAttr layout) const;
  /// The way that is divided along letters of the layer, which stand side by side wherever the op
  /// has them; none where the op's rule does not allow it.
  std::optional<Way> along(mlir::Operation *op, const DimLetters &run) const;
  /// The ways with summands, one for each group of operands in which the op is linear.
  llvm::SmallVector<Way> withSummands(mlir::Operation *op) const;
  /// The ways that the rule allows, each once: whole, copied, along each of `runs`, with summands.
  llvm::SmallVector<Way> list(mlir::Operation *op) const;
  /// Neighboring letters that an op which is dear to compute, or which reads a parameter, names by
  /// its own: heads, columns, words. Other ops have them from these.
  llvm::SmallVector<DimLetters> runs;

  /// The layer's letters along which a value is split, or none where they are parts of letters.
  DimLetters runOf(mlir::Value value, LayoutAttr split) const;

  const LayerLetters letters;

private:
  LayoutAttr splitOf(mlir::Operation *op, const ValueLetters &said, const DimLetters &run) const;
  bool joins(mlir::Operation *op, const DimLetters &run) const;
  void addRuns(mlir::Operation *op);
  bool isLegal(mlir::Operation *op, const Way &way) const;

  mlir::MLIRContext *context;
};

} // namespace omnibal::shard
#endif // PASSES_SHARD_OPWAYS_H
