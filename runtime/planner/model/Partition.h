//===- Partition.h - Simple ways to cut a model into stages ------------------------------===//
#ifndef RUNTIME_PLANNER_MODEL_PARTITION_H
#define RUNTIME_PLANNER_MODEL_PARTITION_H

#include "runtime/planner/model/Problem.h"

namespace omnibal::planner {

/// Linear partition: cuts of `parts` non-empty parts whose largest sum is the least; of those, from
/// the last part to the first, the earliest begin. `weights` are at least 0, as many as `parts` or
/// more.
std::vector<int64_t> levelCuts(const std::vector<int64_t> &weights, int64_t parts);

/// Each of the others returns stages + 1 cuts, with every stage non-empty, and requires stages <=
/// layers.

/// Cuts so that layer counts differ by at most one; the earlier stages get the larger share.
std::vector<int64_t> cutsByLayerCount(const Problem &problem);
/// Cuts into contiguous stages whose largest parameter bytes are as small as possible.
std::vector<int64_t> cutsByParameters(const Problem &problem);
/// Cuts into contiguous stages whose largest forward + backward time is as small as possible
/// ("profile-greedy" of the baselines, which takes neither memory nor transfers nor the schedule
/// into account).
std::vector<int64_t> cutsByTime(const Problem &problem);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_MODEL_PARTITION_H
