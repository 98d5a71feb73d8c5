//===- Partition.h - Simple ways to cut a model into stages ------------------------------===//
#ifndef RUNTIME_PLANNER_MODEL_PARTITION_H
#define RUNTIME_PLANNER_MODEL_PARTITION_H

#include "runtime/planner/model/Problem.h"

namespace omnibal::planner {

/// Each returns stages + 1 cuts, every stage non-empty; requires stages <= layers.

/// Layer counts differ by at most one; the earlier stages get the larger share.
std::vector<int64_t> cutsByLayerCount(const Problem &problem);
/// Contiguous stages whose largest parameter bytes are as small as possible.
std::vector<int64_t> cutsByParameters(const Problem &problem);
/// Contiguous stages whose largest forward + backward time is as small as possible
/// ("profile-greedy" of the baselines: it sees neither memory nor transfers nor the schedule).
std::vector<int64_t> cutsByTime(const Problem &problem);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_MODEL_PARTITION_H
