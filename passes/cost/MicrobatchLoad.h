//===- MicrobatchLoad.h - The load that costs are stated for --------------------------------===//
#ifndef PASSES_COST_MICROBATCHLOAD_H
#define PASSES_COST_MICROBATCHLOAD_H

#include "runtime/support/Types.h"
#include <cstdint>
#include <optional>

namespace omnibal::cost {

/// The micro-batch that costs are stated for.
struct MicrobatchLoad {
  int64_t tiles = 0, tokens = 0;
  std::optional<int64_t> squaredTokens = std::nullopt; ///< sum over samples of length^2; none: one
                                                       ///< sample of all the tokens
  /// Sum over pictures of units^2, where pictures have sizes of their own; none: one picture of all
  /// the units.
  std::optional<int64_t> squaredTiles = std::nullopt;
  int64_t parts =
      1; ///< of a stage; what costs are stated of is the last one, with the largest share
  rt::SymbolValues symbols() const { return rt::SymbolValues::most(tiles, tokens, parts); }
  int64_t squares() const { return squaredTokens.value_or(tokens * tokens); }
  int64_t tileSquares() const { return squaredTiles.value_or(tiles * tiles); }
};

} // namespace omnibal::cost
#endif // PASSES_COST_MICROBATCHLOAD_H
