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

/// Weights of the data sets from an epoch on.
struct MixPhase {
  int64_t epoch = 0;
  std::vector<double> weights;
  bool operator==(const MixPhase &) const = default;
};

/// Returns the `total` samples of an epoch: data set i has the share weights[i] of them (to the
/// nearest whole number), with the weights of the last phase that has begun. Each data set is used
/// again and again, in a new order every time, and continues where the epoch before stopped, so
/// that at any time the numbers of uses of its samples differ by at most one. The result is a
/// function of the arguments alone. The first phase begins with epoch 0, and the others follow in
/// order. There must be as many weights as sizes and at least one; no weight is negative, not all
/// are 0, and an empty data set with a weight is an error.
Result<std::vector<MixedSample>> mixedEpoch(const std::vector<int64_t> &sizes,
                                            const std::vector<MixPhase> &phases, int64_t total,
                                            uint64_t seed, int64_t epoch);

/// Which data set the next sample comes from, so that after any number of samples the shares are
/// right to within one sample for each data set.
class WeightedTurns {
public:
  explicit WeightedTurns(std::vector<double> weights);
  /// Returns the data set of the next sample; -1: no data set is left.
  int32_t next();
  /// Tells that the data set has ended; the others keep their ratios.
  void end(int32_t source);

private:
  std::vector<double> weights, credit;
};

} // namespace omnibal::rt
#endif // RUNTIME_BATCHING_PACK_MIXTURE_H
