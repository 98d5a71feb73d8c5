//===- LayerLetters.h - The letters of a layer, found by joining what its ops say ------------===//
//
// A dimension that one op makes and another reads is one, so their lists of letters are refined
// until both agree: where a linear says columns and a reshape says heads of features, columns are
// heads times features for both. What an op says of a dimension that does not divide so stays its
// own and is not split in this layer.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_SHARD_LAYERLETTERS_H
#define PASSES_SHARD_LAYERLETTERS_H

#include "dialects/omnibal/ir/FactorRule.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "llvm/ADT/DenseSet.h"

namespace omnibal::shard {

class LayerLetters {
public:
  explicit LayerLetters(LayerOp layer);

  /// The letters of each dimension of a value, outermost first; none for size 1.
  ValueLetters of(mlir::Value value) const;
  const SymbolicDim &sizeOf(unsigned letter) const { return nodes[letter].size; }
  /// The rule of an op of the layer.
  const std::optional<FactorRule> &ruleOf(mlir::Operation *op) const {
    return ops.find(op)->second.rule;
  }
  /// The layer's letters that one of the op's rule consists of, outermost first; none where it did
  /// not agree with other ops.
  DimLetters ofOp(mlir::Operation *op, unsigned letter) const;

private:
  /// A letter, one that turned out to be another, or one that turned out to be a product of two.
  struct Node {
    SymbolicDim size;
    std::optional<unsigned> same;
    std::optional<std::pair<unsigned, unsigned>> factors;
  };
  struct OpLetters {
    std::optional<FactorRule> rule;
    llvm::SmallVector<unsigned> nodes; ///< of each letter of the rule
    llvm::DenseSet<unsigned> apart;    ///< letters of the rule that did not agree
  };

  unsigned add(const SymbolicDim &size);
  void addOp(mlir::Operation *op);
  void joinValues(mlir::ValueRange ofOp, llvm::ArrayRef<ValueLetters> said, OpLetters &letters);
  void appendLeaves(unsigned node, DimLetters &leaves) const;
  DimLetters leavesOf(llvm::ArrayRef<unsigned> list) const;
  bool join(llvm::ArrayRef<unsigned> a, llvm::ArrayRef<unsigned> b);

  std::vector<Node> nodes;
  llvm::DenseMap<mlir::Value, ValueLetters> values;
  llvm::DenseMap<mlir::Operation *, OpLetters> ops;
};

} // namespace omnibal::shard
#endif // PASSES_SHARD_LAYERLETTERS_H
