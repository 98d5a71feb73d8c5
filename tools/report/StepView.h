//===- StepView.h - All that happens in a predicted step ------------------------------------===//
#ifndef TOOLS_REPORT_STEPVIEW_H
#define TOOLS_REPORT_STEPVIEW_H

#include "runtime/planner/evaluate/Simulator.h"

namespace omnibal::planner {

/// The place of an action: plan.actions[stage][index].
struct ActionPlace {
  size_t stage = 0, index = 0;
};

/// What one chunk sends to another for one micro-batch, on the way from start to end.
struct TransferTime {
  bool gradient = false;
  int64_t fromChunk = 0, toChunk = 0, microbatch = 0, bytes = 0;
  int64_t startNs = 0, endNs = 0;
  ActionPlace sender, receiver; ///< the actions that make and need it
};

/// Bytes of a stage from a time on.
struct MemoryPoint {
  int64_t ns = 0, bytes = 0;
};

struct StageView {
  std::vector<int64_t> recomputeNs; ///< by action: the part of it that is recomputation
  std::vector<MemoryPoint> memory;  ///< as rule 5 of docs/planner.md counts, ascending in time
  int64_t reductionNs = 0;          ///< of gradients over replicas, after the last action
};

/// What reports and traces show beside the timeline.
struct StepView {
  std::vector<StageView> stages;
  std::vector<TransferTime> transfers; ///< between stages only, by start
};

/// `timeline` is that of the plan, without an error.
StepView viewOf(const Problem &problem, const Plan &plan, const Timeline &timeline);

} // namespace omnibal::planner
#endif // TOOLS_REPORT_STEPVIEW_H
