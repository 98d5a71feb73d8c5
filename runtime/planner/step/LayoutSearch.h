//===- LayoutSearch.h - Where layers lie when every step has its own plan ---------------------===//
#ifndef RUNTIME_PLANNER_STEP_LAYOUTSEARCH_H
#define RUNTIME_PLANNER_STEP_LAYOUTSEARCH_H

#include "runtime/planner/step/ChunkLayout.h"

namespace omnibal::planner {

/// Work for a layout: counted, never timed.
struct LayoutSearchOptions {
  int64_t mostChunks = 4;          ///< a stage and component
  int64_t mostActions = 6'000'000; ///< put into lists over the whole search
};

struct LayoutChoice {
  ChunkLayout layout;
  StepProblem problem;  ///< with a serial static plan
  int64_t sampleNs = 0; ///< nanoseconds: the sum of all samples' steps, each with its own plan
};

/// Lays out a model for step plans: all of chunkLayouts are scored by the step planner on a few
/// samples, the better ones on more, and the best one's layers then move one by one. `samples` has
/// at least one step; the model has a layer a stage. None where no layout's plans fit the memory.
std::optional<LayoutChoice> chooseLayout(const StepLayers &layers, const StepProblem &frame,
                                         const std::vector<StepLoads> &samples,
                                         const LayoutSearchOptions &options = {});

/// What chooseLayout would say of a layout: the sum of the samples' steps; the largest int64 where
/// one has no plan that fits the memory.
int64_t sampleNsOf(const StepLayers &layers, const ChunkLayout &layout, const StepProblem &frame,
                   const std::vector<StepLoads> &samples);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_STEP_LAYOUTSEARCH_H
