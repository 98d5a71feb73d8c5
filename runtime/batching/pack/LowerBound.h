//===- LowerBound.h - Fewer groups are impossible --------------------------------------------===//
#ifndef RUNTIME_BATCHING_PACK_LOWERBOUND_H
#define RUNTIME_BATCHING_PACK_LOWERBOUND_H

#include "runtime/batching/pack/SampleTypes.h"
#include "runtime/batching/rows/Grouping.h"
#include <string>

namespace omnibal::rt {

struct Bound {
  int64_t groups = 0;
  std::string method; ///< as Batches::boundMethod
};

/// Returns the bound that follows from the total load over the cap, and from samples of which no
/// two (or few) fit together, in tiles and in tokens: Martello and Toth's bound L2 for bin packing,
/// over all thresholds.
Bound simpleBound(const Histogram &histogram, Caps caps);

/// Returns the better of `other` and the configuration LP's bound. That bound gives values to all
/// lengths, made from the types' prices and scaled so that no group that fits is worth more than
/// one; the sum of all samples' values is then at most the number of groups. It is computed in
/// whole numbers, so it holds exactly; lengths are rounded down as far as the work of the knapsack
/// requires.
Bound configurationBound(const Histogram &histogram, Caps caps, const SampleTypes &types,
                         const std::vector<double> &prices, Bound other);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_PACK_LOWERBOUND_H
