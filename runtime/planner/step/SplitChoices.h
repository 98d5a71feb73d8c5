//===- SplitChoices.h - How a step's micro-batches may be divided -----------------------------===//
#ifndef RUNTIME_PLANNER_STEP_SPLITCHOICES_H
#define RUNTIME_PLANNER_STEP_SPLITCHOICES_H

#include "runtime/planner/step/StepUnits.h"

namespace omnibal::planner {

/// Most variants of any chunk, one at least.
size_t mostVariants(const StepProblem &problem);

/// Sub-micro-batches of one micro-batch, where they pay at all.
constexpr int64_t mostSubMicrobatches = 4;
/// The fewest tiles for which nine tenths of the time of a forward and its backward depend on their
/// number; more than `most` where there are none up to it.
int64_t efficientTiles(const StepVariant &variant, int64_t most);

/// The sub-micro-batches that a search tries.
class SplitChoices {
public:
  /// Micro-batches stay whole where the problem or `maySplit` says so, and where there are twice as
  /// many micro-batches as stages: then a pipeline fills without.
  SplitChoices(const StepModel &model, const StepLoads &loads, bool maySplit);

  bool isPossible() const { return !allSizes.empty(); }
  /// Largest sizes, in tiles, that all micro-batches may be divided to.
  const std::vector<int64_t> &sizes() const { return allSizes; }
  int32_t mostPartsOf(int32_t microbatch) const { return mostParts[microbatch]; }
  /// How many parts make none larger than `size`, as far as the micro-batch allows.
  int32_t partsOfSize(int32_t microbatch, int64_t size) const;
  /// Borders for the wanted numbers of parts; fewer where cuts do not allow them.
  Borders borders(const std::vector<int32_t> &parts) const;

  /// Time of a micro-batch's functions on all stages in their fastest variants.
  int64_t workOf(int32_t microbatch) const { return works[microbatch]; }

private:
  std::vector<int64_t> bordersOf(size_t microbatch, int64_t parts) const;

  const StepProblem &problem;
  const StepLoads &loads;
  std::vector<int64_t> allSizes;
  std::vector<int32_t> mostParts;
  std::vector<int64_t> works;
};

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_STEP_SPLITCHOICES_H
