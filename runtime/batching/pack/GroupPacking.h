//===- GroupPacking.h - Our packer -----------------------------------------------------------===//
#ifndef RUNTIME_BATCHING_PACK_GROUPPACKING_H
#define RUNTIME_BATCHING_PACK_GROUPPACKING_H

#include "runtime/batching/pack/LowerBound.h"
#include "runtime/batching/rows/Grouping.h"
#include "runtime/batching/rows/Random.h"

namespace omnibal::rt {

/// Returns groups of all samples within the caps (at least one), as few as it can, and the bound on
/// their number. `ranks` groups more or less do not matter, because the result is made a multiple
/// of it.
LoadedGroups planGroups(const SampleLengths &lengths, Caps caps, int32_t ranks, Random random,
                        Bound &bound);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_PACK_GROUPPACKING_H
