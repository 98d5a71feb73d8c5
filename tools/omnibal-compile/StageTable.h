//===- StageTable.h - The plan as a table ------------------------------------------------===//
#ifndef TOOLS_OMNIBAL_COMPILE_STAGETABLE_H
#define TOOLS_OMNIBAL_COMPILE_STAGETABLE_H

#include "passes/cost/LayerFacts.h"
#include "passes/plan/SearchPlan.h"
#include "runtime/device/WorkspaceUse.h"

namespace omnibal::compile {

/// What the table says beside the plan.
struct TableFacts {
  std::string device;       ///< and the type of its numbers, for people
  std::string assumption;   ///< about the micro-batches' load
  bool stepPlanned = false; ///< what follows is of the lists that serve every step
  std::string mode;         ///< name of the training mode's length group; empty: there is one
  cost::MicrobatchLoad caps;
  int64_t degree = 1;               ///< replicas that run a micro-batch of the mode together
  std::vector<int64_t> memoryBytes; ///< by stage
  std::vector<int64_t> limitBytes;  ///< by stage; empty: none
  std::vector<std::vector<rt::WorkspaceUse>> beside; ///< by stage: what the backend takes as well
};

/// One line a stage: layers, parameters, predicted forward and backward time, recomputation, memory
/// against the limit, bubble.
std::string stageTable(const plan::StagePlan &planned, const TableFacts &facts);

/// "vision.layers.0-11" for consecutive numbered layers.
std::string layerRange(const planner::Problem &problem, int64_t begin, int64_t end);

} // namespace omnibal::compile
#endif // TOOLS_OMNIBAL_COMPILE_STAGETABLE_H
