//===- GradientShares.h - Buckets and shares of a stage before its memory is laid out ---------===//
//
// Where replicas divide the optimizer's state (ZeRO-1), how much of it a rank has depends on the
// buckets, and these on the order in which gradients are complete. The same order is read here from
// the memory graph, for programs and for plans.
//
//===----------------------------------------------------------------------------------------===//
#ifndef PASSES_LAYOUT_GRADIENTSHARES_H
#define PASSES_LAYOUT_GRADIENTSHARES_H

#include "passes/layout/MemoryGraph.h"
#include "passes/schedule/GradientBuckets.h"

namespace omnibal::layout {

/// The buckets that schedule::placeGradientBuckets finds in the stage's program. `computes` has the
/// stage's computing actions in a training step, chunks by their ids; calls have their parameters.
std::vector<schedule::FilledBucket>
findBuckets(const MemoryGraph &graph, int64_t stage, const std::vector<rt::Action> &computes,
            std::span<const schedule::TrainedParameter> parameters);

} // namespace omnibal::layout
#endif // PASSES_LAYOUT_GRADIENTSHARES_H
