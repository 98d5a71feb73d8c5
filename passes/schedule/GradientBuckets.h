//===- GradientBuckets.h - Which gradients the replicas sum together, and when ----------------===//
#ifndef PASSES_SCHEDULE_GRADIENTBUCKETS_H
#define PASSES_SCHEDULE_GRADIENTBUCKETS_H

#include "runtime/program/Program.h"
#include <map>
#include <span>

namespace omnibal::schedule {

/// What replicas sum at a time.
inline constexpr int64_t defaultBucketBytes = int64_t{25} << 20;

/// When a gradient is complete: the action's position in the list and the layer's in the action.
using Completion = std::pair<int64_t, int64_t>;

struct TrainedParameter {
  int32_t number = 0; ///< on its stage
  int64_t elements = 0;
  bool isShared = false; ///< with other stages
  /// Its size where buckets are filled; 0: its elements. All parts of a stage fill theirs alike,
  /// whatever each of them holds.
  int64_t wholeElements = 0;
  int64_t grain = 1; ///< bucketGrain of the optimizer
};

struct FilledBucket {
  std::vector<int32_t> parameters;
  int64_t elements = 0; ///< with what lies between parameters
};

/// Fills buckets of at most `bucketBytes` unless one parameter is larger, in the order in which the
/// gradients of mode "train" are complete. Parameters of several stages come last, because their
/// copies add up first.
std::vector<FilledBucket> fillBuckets(std::span<const TrainedParameter> parameters,
                                      const std::map<int32_t, Completion> &last,
                                      int64_t bucketBytes);
/// Those of a stage, in the order of their numbers.
std::vector<TrainedParameter> trainedParameters(const rt::Stage &stage, int64_t grain = 1);

/// Fills the stage's buckets as mode "train" completes their gradients. Puts one reduce_gradients
/// per bucket into the list of every train mode, behind the action that completes it there and the
/// messages that are started there. A list's own reduce_gradients, if there is one, says where the
/// last ones go; without it nothing is summed. Likewise scatter_gradients and gather_parameters;
/// shares that buckets have stay theirs.
void placeGradientBuckets(rt::Stage &stage, int64_t bucketBytes);

} // namespace omnibal::schedule
#endif // PASSES_SCHEDULE_GRADIENTBUCKETS_H
