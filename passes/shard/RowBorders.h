//===- RowBorders.h - What parts have of values between layers --------------------------------===//
//
// A value between layers is whole on all parts, or each part has its share of the value's tokens or
// tiles. All layers that make or read a value agree, so the choice is one for all of a model's
// tokens and one for all of its tiles.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_SHARD_ROWBORDERS_H
#define PASSES_SHARD_ROWBORDERS_H

#include "dialects/omnibal/ir/Layouts.h"
#include "dialects/omnibal/ir/OmnibalOps.h"

namespace omnibal::shard {

/// Which rows parts have shares of between layers.
struct RowBorders {
  bool tokens = false, tiles = false;

  /// The layouts of a layer's inputs, then of its outputs. What leaves @main, losses and what has
  /// no gradient are whole.
  llvm::SmallVector<LayoutAttr> of(LayerOp layer) const;
  LayoutAttr of(mlir::Value value) const;
};

/// Whether parts could have shares of tokens, and of tiles, of some value between layers.
RowBorders possibleBorders(llvm::ArrayRef<LayerOp> layers);

} // namespace omnibal::shard
#endif // PASSES_SHARD_ROWBORDERS_H
