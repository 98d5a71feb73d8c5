//===- PlanStages.h - From layers to a plan -------------------------------------------------===//
#ifndef PASSES_PARTITION_PLANSTAGES_H
#define PASSES_PARTITION_PLANSTAGES_H

#include "passes/cost/Device.h"
#include "passes/partition/LayerFacts.h"
#include "passes/partition/StepLoads.h"
#include "passes/planner/Plan.h"
#include "passes/planner/Problem.h"
#include "passes/planner/Simulator.h"
#include <memory>

namespace omnibal::partition {

struct PlanOptions {
  std::string method = "layers"; ///< layers | parameters | greedy
  std::string remat = "auto";    ///< auto | none | full
  std::string schedule = "1f1b"; ///< gpipe | 1f1b
  std::string elementType = "float32";
  cost::Device device;
  planner::Cluster cluster;
  int64_t microbatches = 4;
  Load load; ///< full caps; `batches` says what the data's micro-batches have of them
  std::shared_ptr<const EpochLoads> batches; ///< null: every micro-batch is full, of one sample
  std::string planFile; ///< a plan by hand; wins over method, remat and schedule where it says so
};

struct PlannedModule {
  planner::Problem problem;
  planner::Plan plan;
  planner::Timeline timeline;
  std::vector<int64_t> peakBytesAtCaps; ///< by stage, as rule 6 counts, micro-batches full
  UnitCosts costs;
  std::string assumption; ///< about the micro-batches' load, for people
};

/// Plans a module in form L with a loss (after omnibal-attach-loss): derives the problem from the
/// functions that the layers would have with and without rematerialisation, chooses cuts and remat,
/// and simulates the result. With remat "auto" a stage recomputes as few layers as its memory limit
/// needs (none without a limit). With `batches`, times are those of the data's typical step (a
/// factor a micro-batch in the problem), while memory is planned for full micro-batches. Writes
/// `omnibal.chunk` and `omnibal.remat` on the layers. Reports on the module; nothing is written
/// unless the plan is complete.
llvm::FailureOr<PlannedModule> planStages(mlir::ModuleOp module, const PlanOptions &options);

} // namespace omnibal::partition
#endif // PASSES_PARTITION_PLANSTAGES_H
