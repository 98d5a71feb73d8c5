//===- PlanStages.h - From layers to a plan
//-----------------------------------------------------------------===//
#ifndef PASSES_PARTITION_PLANSTAGES_H
#define PASSES_PARTITION_PLANSTAGES_H

#include "passes/cost/Device.h"
#include "passes/partition/LayerFacts.h"
#include "passes/planner/Plan.h"
#include "passes/planner/Problem.h"
#include "passes/planner/Simulator.h"

namespace omnibal::partition {

struct PlanOptions {
  std::string method = "layers"; ///< layers | parameters | greedy
  std::string remat = "auto";    ///< auto | none | full
  std::string schedule = "1f1b"; ///< gpipe | 1f1b
  std::string elementType = "float32";
  cost::Device device;
  planner::Cluster cluster;
  int64_t microbatches = 4;
  Load load;
  std::string planFile; ///< a plan by hand; wins over method, remat and schedule where it says so
};

struct PlannedModule {
  planner::Problem problem;
  planner::Plan plan;
  planner::Timeline timeline;
};

/// Plans a module in form L with a loss (after omnibal-attach-loss): derives the problem from the
/// functions that the layers would have with and without rematerialisation, chooses cuts and remat,
/// and simulates the result. With remat "auto" a stage recomputes as few layers as its memory limit
/// needs (none without a limit). Writes `omnibal.chunk` and `omnibal.remat` on the layers. Reports
/// on the module; nothing is written unless the plan is complete.
llvm::FailureOr<PlannedModule> planStages(mlir::ModuleOp module, const PlanOptions &options);

} // namespace omnibal::partition
#endif // PASSES_PARTITION_PLANSTAGES_H
