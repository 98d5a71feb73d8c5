//===- TileRows.h - Functions that compute each tile by itself ---------------------------===//
#ifndef DIALECTS_OMNIBAL_ANALYSIS_TILEROWS_H
#define DIALECTS_OMNIBAL_ANALYSIS_TILEROWS_H

#include "mlir/IR/Block.h"

namespace omnibal::analysis {

/// Whether the results of a layer's forward for V tiles, the body of a function or of a layer, are
/// those for its first tiles followed by those for the others: every value whose size depends on V
/// has the rows of one tile after those of the other, no op mixes them, and nothing depends on N.
/// Its gradients then have the same property, and those of parameters are sums over tiles. False
/// where an op is not known to have it.
bool computesTileByTile(mlir::Block &forward);

} // namespace omnibal::analysis
#endif // DIALECTS_OMNIBAL_ANALYSIS_TILEROWS_H
