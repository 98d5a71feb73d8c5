//===- LowerBound.h - Fewer groups are impossible --------------------------------------------===//
#ifndef RUNTIME_BATCHING_LOWERBOUND_H
#define RUNTIME_BATCHING_LOWERBOUND_H

#include "runtime/batching/Grouping.h"
#include "runtime/batching/Histogram.h"
#include <string>

namespace omnibal::rt {

struct Bound {
  int64_t groups = 0;
  std::string method; ///< as Batches::boundMethod
};

/// Total load over cap, and samples of which no two (or few) fit together, in tiles and in tokens:
/// Martello and Toth's bound L2 for bin packing, over all thresholds.
Bound simpleBound(const Histogram &histogram, Caps caps);

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_LOWERBOUND_H
