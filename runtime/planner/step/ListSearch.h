//===- ListSearch.h - The best lists of one step by local search ------------------------------===//
#ifndef RUNTIME_PLANNER_STEP_LISTSEARCH_H
#define RUNTIME_PLANNER_STEP_LISTSEARCH_H

#include "runtime/planner/step/ListMaker.h"
#include <memory>

namespace omnibal::planner {

/// What lists are made from.
struct ListCandidate {
  StepPolicy policy;
  std::vector<int32_t> order;  ///< in which micro-batches enter
  std::vector<int32_t> splits; ///< by micro-batch: number of sub-micro-batches wanted
};

/// What to search lists for, with how much work.
struct ListSearchTask {
  const StepModel &model;
  const StepLoads &loads;      ///< that times are for
  const StepLoads &sizes;      ///< that blocks are sized for
  std::vector<int64_t> limits; ///< bytes by stage; empty: none
  int64_t mostActions = 0, mostLists = 0;
  bool maySplit = true, polishes = true;
  std::optional<ListCandidate> start = {}; ///< tried first; then no policies and orders are
};

/// A step's units for some borders, with what makes lists of them.
struct SplitUnits {
  SplitUnits(const ListSearchTask &task, const Borders &borders)
      : units(task.model, task.loads, borders),
        bytes(unitBytes(&task.loads == &task.sizes
                            ? units
                            : StepUnits(task.model, task.sizes, wholeMicrobatches(task.sizes)))),
        maker(units, bytes, task.limits) {}

  StepUnits units;
  std::vector<UnitBytes> bytes;
  ListMaker maker;
};

/// The best lists so far, and what they came from.
struct FoundLists {
  ListCandidate candidate;
  std::shared_ptr<SplitUnits> split;
  StepLists lists;
  int64_t stepNs = std::numeric_limits<int64_t>::max();
};

struct ListSearchResult {
  std::optional<FoundLists> best; ///< none where no lists finish within the limits
  int64_t evaluated = 0;          ///< lists made by policies
};

/// Makes lists under several policies and orders of micro-batches, then changes the best one's
/// policy, order and sub-micro-batches at random where that does not lengthen the step, then its
/// lists. Work is counted, never timed.
/// Where `sizes` are not `loads`, micro-batches have tiles in both or in neither, and stay whole.
ListSearchResult searchLists(const ListSearchTask &task);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_STEP_LISTSEARCH_H
