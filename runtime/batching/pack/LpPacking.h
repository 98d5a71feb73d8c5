//===- LpPacking.h - Types, LP and patterns in one go ----------------------------------------===//
#ifndef RUNTIME_BATCHING_PACK_LPPACKING_H
#define RUNTIME_BATCHING_PACK_LPPACKING_H

#include "runtime/batching/pack/PatternExpansion.h"

namespace omnibal::rt {

struct LpPacking {
  Expansion expansion;
  SampleTypes types;
  std::vector<double> prices; ///< dual, of each type: what a sample of it takes of a group
};

/// Packs most of the samples within the caps.
LpPacking lpPacking(const SampleLengths &lengths, Caps caps, const Histogram &histogram,
                    Random random);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_PACK_LPPACKING_H
