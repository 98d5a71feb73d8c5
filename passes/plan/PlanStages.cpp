#include "passes/plan/PlanStages.h"
#include "passes/cost/MeasuredTimes.h"
#include "passes/plan/ProblemAttributes.h"

using namespace mlir;

namespace omnibal::plan {

FailureOr<PlannedModule> planStages(ModuleOp module, const PlanOptions &options) {
  cost::CostOptions costs{options.precision, options.device, options.load, nullptr};
  if (options.calibration)
    costs.measured = std::make_shared<cost::MeasuredTimes>(
        *options.calibration, options.schedule == "zb-h1" || options.schedule == "auto");
  if (options.batches)
    costs.load = cost::loadAtCaps(*options.batches, options.load.tiles, options.load.tokens);
  FailureOr<cost::UnitCostTable> units = cost::annotateCosts(module, costs);
  if (failed(units))
    return failure();
  std::vector<planner::LoadFactors> loads;
  if (options.batches)
    for (const cost::GroupLoad &microbatch :
         cost::typicalStep(*options.batches, options.microbatches, units->of({})))
      loads.push_back(options.calibration
                          ? units->factorsOf(microbatch, costs.load)
                          : cost::factorsOf(microbatch, options.load.tiles, options.load.tokens));
  writeLoads(module, loads);
  writeCluster(module, options.cluster);
  FailureOr<StagePlan> found = searchStages(module, options);
  if (failed(found))
    return failure();
  PlannedModule planned;
  static_cast<StagePlan &>(planned) = std::move(*found);
  planned.costs = units->of(planned.plan.remat);
  planned.unmeasured = units->unmeasured;
  planned.assumption = options.batches ? "the median step of " + options.batches->source
                                       : "a full micro-batch of one sample";
  return planned;
}

} // namespace omnibal::plan
