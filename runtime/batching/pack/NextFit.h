//===- NextFit.h - One open group, no look back ----------------------------------------------===//
#ifndef RUNTIME_BATCHING_PACK_NEXTFIT_H
#define RUNTIME_BATCHING_PACK_NEXTFIT_H

#include "runtime/batching/rows/Grouping.h"
#include "runtime/batching/rows/Random.h"

namespace omnibal::rt {

/// Next-fit of `order`; every sample is within the caps.
Grouping nextFit(const SampleLengths &lengths, std::vector<uint32_t> order, Caps caps);

/// Next-fit of one random permutation.
Grouping randomGroups(const SampleLengths &lengths, std::vector<uint32_t> samples, Caps caps,
                      Random random);

/// Next-fit in order of tokens; equal ones in random order.
Grouping sortedGroups(const SampleLengths &lengths, std::vector<uint32_t> samples, Caps caps,
                      Random random);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_PACK_NEXTFIT_H
