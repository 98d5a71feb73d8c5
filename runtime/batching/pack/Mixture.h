//===- Mixture.h - Several data sets in given shares -----------------------------------------===//
#ifndef RUNTIME_BATCHING_PACK_MIXTURE_H
#define RUNTIME_BATCHING_PACK_MIXTURE_H

#include "runtime/support/Status.h"
#include <cstdint>
#include <vector>

namespace omnibal::rt {

/// A sample of one of several data sets.
struct MixedSample {
  int32_t source = 0; ///< which data set
  int64_t number = 0; ///< of the sample in it
  bool operator==(const MixedSample &) const = default;
};

/// The `total` samples of an epoch: data set i has the share weights[i] of them (to the nearest
/// whole number). Each data set is gone through again and again, in a new order every time, on from
/// where the epoch before stopped: at any time all its samples were used equally often, but for
/// one. A function of the arguments alone. Errors: as many weights as sizes are needed, at least
/// one; none negative, not all 0; an empty data set with a weight.
Result<std::vector<MixedSample>> mixedEpoch(const std::vector<int64_t> &sizes,
                                            const std::vector<double> &weights, int64_t total,
                                            uint64_t seed, int64_t epoch);

/// Which data set the next sample comes from, so that after any number of samples the shares are
/// right to within one sample for each data set.
class WeightedTurns {
public:
  explicit WeightedTurns(std::vector<double> weights);
  /// -1: no data set is left.
  int32_t next();
  /// The data set has ended; the others keep their ratios.
  void end(int32_t source);

private:
  std::vector<double> weights, credit;
};

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_PACK_MIXTURE_H
