//===- LengthBins.h - Samples of about one length, counted together -------------------------===//
#ifndef RUNTIME_BATCHING_LENGTHS_LENGTHBINS_H
#define RUNTIME_BATCHING_LENGTHS_LENGTHBINS_H

#include "runtime/batching/lengths/LengthGroups.h"
#include "runtime/batching/pack/Histogram.h"

namespace omnibal::rt {

/// Samples of about one length, which the same candidates hold. Sums over them.
struct LengthBin {
  double count = 0, tiles = 0, tokens = 0, squares = 0;
  int32_t mostTiles = 0, mostTokens = 0;
};

/// Eight bins an octave of tokens; every cap of the candidates is a border.
std::vector<LengthBin> binLengths(const std::vector<Cell> &cells, const LengthGroups &candidates);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_LENGTHS_LENGTHBINS_H
