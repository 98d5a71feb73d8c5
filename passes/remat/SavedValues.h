//===- SavedValues.h - What backward keeps of a layer's forward --------------------------===//
//
// Backward needs values of forward. Parameters, constants and values of the micro-batch are there
// anyway; other values are either kept from forward on or recomputed from kept ones by cheap ops.
// The choice is a minimum cut between what cannot be recomputed and what is needed:
//
//   keeping a value costs 32 a byte (one more a byte for a view: it would have to be copied),
//   recomputing one costs 1 a byte of it (0 for a view),
//
// so that memory decides and traffic breaks ties. With sizes taken at `nominalTiles` and
// `nominalTokens` the choice does not depend on caps or data. Examples that come out of it: of
// gelu(x) and x only x is kept; norms are recomputed from the residual stream; of silu(g) * u, g
// and u are kept; rotated queries are kept, not the ones before.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_REMAT_SAVEDVALUES_H
#define PASSES_REMAT_SAVEDVALUES_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

namespace omnibal {

/// Micro-batch at which sizes are compared: eight tiles of 256 tokens and as much text.
constexpr int64_t nominalTiles = 8, nominalTokens = 4096;

struct RematQuery {
  /// Values of forward that backward reads.
  llvm::SetVector<mlir::Value> needed;
  /// Block arguments that backward has anyway (parameters).
  llvm::DenseSet<mlir::Value> available;
  /// Recompute everything: only block arguments are kept.
  bool recomputeAll = false;
};

/// Values to keep (block arguments among them), in the order of their definition. Everything
/// needed can be computed from them, `available` and ops without operands. Fails with a
/// diagnostic where a value has no known size.
mlir::FailureOr<llvm::SetVector<mlir::Value>> selectSavedValues(const RematQuery &query);

} // namespace omnibal
#endif // PASSES_REMAT_SAVEDVALUES_H
