//===- FirstLists.h - The policies and orders that a search for lists begins with -------------===//
#ifndef RUNTIME_PLANNER_STEP_FIRSTLISTS_H
#define RUNTIME_PLANNER_STEP_FIRSTLISTS_H

#include "runtime/planner/step/ListMaker.h"
#include "runtime/planner/step/SplitChoices.h"

namespace omnibal::planner {

/// In which order micro-batches enter the pipeline. Small ones let it fill and drain fast.
enum class EntryOrder : uint8_t {
  Natural,
  LeastWork,   ///< the one of least work first
  LeastTiles,  ///< that of the fewest tiles first
  SmallAtEnds, ///< by work, in turn from the begin and from the end
  LeastLast,   ///< by work, but the least one last
};

struct FirstList {
  StepPolicy policy;
  EntryOrder order = EntryOrder::Natural;
};

/// Returns what is tried first, best first. Each list was chosen because, with those before it, it
/// shortened steps of several sizes and kinds of data most (docs/step-plans.md). With limits there
/// are others, which leave room.
std::vector<FirstList> firstLists(const StepProblem &problem, bool isLimited);

/// What is tried in addition where micro-batches may be divided, for each size of their parts.
std::vector<FirstList> firstListsOfParts(const StepProblem &problem);

/// Returns the numbers of the micro-batches as they enter.
std::vector<int32_t> entryOrder(EntryOrder order, const StepLoads &loads,
                                const SplitChoices &choices);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_STEP_FIRSTLISTS_H
