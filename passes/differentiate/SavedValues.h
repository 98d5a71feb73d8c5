//===- SavedValues.h - What backward keeps of a layer's forward --------------------------===//
//
// Backward needs values of forward. Parameters, constants and values of the micro-batch are always
// available; other values are either kept from forward on or recomputed from kept ones. A choice is
// a minimum cut between what cannot be recomputed and what is needed:
//
//   keeping a value costs 32 a byte (one more a byte for a view: it would have to be copied),
//   recomputing one by a cheap op costs 1 a byte of it (0 for a view),
//   running a dear op again (a product, attention) costs its FLOPs / 128 and its bytes,
//
// where the first two are multiplied by a price of memory. At the lowest price no expensive op runs
// again: that is "keep". Some examples of the result: of gelu(x) and x only x is kept; norms are
// recomputed from the residual stream; of silu(g) * u, g and u are kept; rotated queries are kept
// instead of those before the rotation. As the price rises the cut moves towards the layer's
// inputs. The places to which it moves are the further choices "selective-1", "selective-2" ...
// (corners of the convex hull of memory and work, found as in Eisner and Severance 1976, at most
// three: those whose loss would cost most). "full" keeps only the layer's inputs. Sizes are taken
// at `nominalTiles` and `nominalTokens`, and 128 FLOPs are assumed to take as long as a byte (the
// figure is between 5 for a CPU in float32 and about 150 to 300 for GPUs in bfloat16). So the
// choices depend neither on caps nor on data nor on a device, and a name means the same everywhere.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef PASSES_DIFFERENTIATE_SAVEDVALUES_H
#define PASSES_DIFFERENTIATE_SAVEDVALUES_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include <string>
#include <vector>

namespace omnibal {

/// Micro-batch at which sizes are compared: eight tiles of 256 tokens and as much text.
constexpr int64_t nominalTiles = 8, nominalTokens = 4096;

struct RematQuery {
  /// Values of forward that backward reads.
  llvm::SetVector<mlir::Value> needed;
  /// Block arguments that backward has anyway (parameters).
  llvm::DenseSet<mlir::Value> available;
  /// Values that are held already: nothing behind them is looked at, and keeping one on is a little
  /// cheaper than keeping a value that would need a buffer of its own.
  llvm::DenseSet<mlir::Value> held = {};
  /// Values that are computed nowhere else: computing one costs nothing on top.
  llvm::DenseSet<mlir::Value> uncomputed = {};
};

/// One way to rematerialize.
struct RematChoice {
  std::string name; ///< keep | selective-N | full
  /// Values to keep (block arguments among them), in the order of their definition. Everything
  /// needed can be computed from them, `available` and ops without operands.
  llvm::SetVector<mlir::Value> kept;
};

/// "keep" first, "full" last, between them the selective ones from most to least memory. Fails
/// with a diagnostic where a value has no known size.
mlir::FailureOr<std::vector<RematChoice>> findRematChoices(const RematQuery &query);

/// What "keep" keeps.
mlir::FailureOr<llvm::SetVector<mlir::Value>> selectSavedValues(const RematQuery &query);

} // namespace omnibal
#endif // PASSES_DIFFERENTIATE_SAVEDVALUES_H
