//===- DipLike.h - Plans of steps after DIP (arXiv 2504.14145) --------------------------------===//
#ifndef TEST_BENCH_STEP_PLANS_DIPLIKE_H
#define TEST_BENCH_STEP_PLANS_DIPLIKE_H

#include "runtime/planner/step/ChunkLayout.h"

namespace omnibal::bench {

/// Segments of one modality over all stages, floor(T_i / T_1) of them by the mean latencies, in
/// uniform chunks.
planner::ChunkLayout dipLayout(const planner::StepLayers &layers, const std::vector<int64_t> &work,
                               int64_t stages);

/// Uniform chunks of given numbers of segments.
planner::ChunkLayout dipLayout(const planner::StepLayers &layers, int64_t vision, int64_t language,
                               int64_t stages);

/// The step's time after searching `evaluations` orders of segments: whole backwards, forwards and
/// backwards in turn (the dual queue), sub-micro-batches of `tiles` tiles for all micro-batches.
/// With a memory limit orders are searched in the leanest variants, which are then made fatter
/// while every moment fits (where DIP has an integer program); places are not counted. Largest
/// int64 where it does not fit.
int64_t dipStep(const planner::StepProblem &problem, const planner::StepLoads &loads, int64_t tiles,
                int64_t evaluations);

} // namespace omnibal::bench
#endif // TEST_BENCH_STEP_PLANS_DIPLIKE_H
