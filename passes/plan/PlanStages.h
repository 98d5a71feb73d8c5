//===- PlanStages.h - From layers to a plan -------------------------------------------------===//
#ifndef PASSES_PLAN_PLANSTAGES_H
#define PASSES_PLAN_PLANSTAGES_H

#include "passes/cost/Calibration.h"
#include "passes/cost/LayerCosts.h"
#include "passes/plan/SearchPlan.h"
#include <memory>

namespace omnibal::plan {

struct PlanOptions : PlanChoices {
  cost::Precision precision;
  cost::Device device;
  planner::Cluster cluster;
  /// Full caps; `batches` says what the data's micro-batches have of them.
  cost::MicrobatchLoad load;
  /// Null: every micro-batch is full, of one sample.
  std::shared_ptr<const cost::EpochLoads> batches;
  std::shared_ptr<const cost::Calibration> calibration; ///< measured times; null: the roofline
};

struct PlannedModule : StagePlan {
  cost::UnitCosts costs;
  std::string assumption; ///< about the micro-batches' load, for people
  /// Layers and options whose times no calibration table has, where one is used.
  llvm::SmallVector<std::pair<std::string, std::string>> unmeasured;
};

/// Does what omnibal-annotate-costs and omnibal-search-plan do, in one: annotateCosts,
/// `omnibal.cluster`, the loads of the data's typical step, searchStages. Errors are reported at
/// the module.
llvm::FailureOr<PlannedModule> planStages(mlir::ModuleOp module, const PlanOptions &options);

} // namespace omnibal::plan
#endif // PASSES_PLAN_PLANSTAGES_H
