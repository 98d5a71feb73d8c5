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

/// Where a data set stands. Its samples come pass after pass, each in a new order; of the places in
/// this sequence those below `next` are used, but for those in `left`, which come first.
struct MixPlace {
  int64_t next = 0;
  std::vector<int64_t> left; ///< ascending
  bool operator==(const MixPlace &) const = default;
};

/// Where the data sets stand when an epoch begins; without places, at their beginning.
struct MixStart {
  int64_t epoch = 0;
  std::vector<MixPlace> places = {};
};

/// Several data sets in given shares; if it is not set, there is one data set, with every sample
/// once per epoch. Samples of all data sets are numbered in one sequence, in the order of `sizes`.
struct Mix {
  std::vector<int64_t> sizes;   ///< samples of each data set
  std::vector<MixPhase> phases; ///< shares of an epoch's samples, relative to the others'
  int64_t samples = 0;          ///< of an epoch
  MixStart start = {};          ///< epochs before it are not asked for
  bool isSet() const { return !sizes.empty(); }
};

/// There must be as many weights as sizes and at least one; no weight is negative, not all are 0,
/// and an empty data set with a weight is an error.
Status checkWeights(const std::vector<int64_t> &sizes, const std::vector<double> &weights);

/// Returns the samples of an epoch: data set i has the share weights[i] of them (to the nearest
/// whole number), with the weights of the last phase that has begun. Each data set is used again
/// and again, in a new order every time, and continues where the epoch before stopped, so that
/// after any epoch the numbers of uses of its samples differ by at most one. The result is a
/// function of the arguments alone. The first phase begins with epoch 0, and the others follow in
/// order.
Result<std::vector<MixedSample>> mixedEpoch(const Mix &mix, uint64_t seed, int64_t epoch);

/// Where the data sets stand after an epoch of which these samples, by their numbers in the one
/// sequence, were drawn but not trained. A sample that the epoch has several times and that was
/// trained in some of these counts as trained in the first ones, so that those come first
/// afterwards that have been used least.
Result<MixStart> startAfter(const Mix &mix, uint64_t seed, int64_t epoch,
                            const std::vector<int64_t> &untrained);

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
