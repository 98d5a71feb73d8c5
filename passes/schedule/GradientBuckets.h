//===- GradientBuckets.h - Which gradients the replicas sum together, and when ----------------===//
#ifndef PASSES_SCHEDULE_GRADIENTBUCKETS_H
#define PASSES_SCHEDULE_GRADIENTBUCKETS_H

#include "runtime/program/Program.h"

namespace omnibal::schedule {

/// Fills the stage's buckets, of at most `bucketBytes` unless one parameter is larger, in the order
/// in which mode "train" completes their gradients. Puts one reduce_gradients per bucket into the
/// list of every train mode, behind the action that completes it there and the messages that are
/// started there. Parameters of several stages come last, because their copies add up first. A
/// list's own reduce_gradients, if there is one, says where those go; without it nothing is summed.
void placeGradientBuckets(rt::Stage &stage, int64_t bucketBytes);

} // namespace omnibal::schedule
#endif // PASSES_SCHEDULE_GRADIENTBUCKETS_H
