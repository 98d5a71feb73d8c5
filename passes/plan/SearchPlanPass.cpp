//===- SearchPlanPass.cpp - omnibal-search-plan ---------------------------------------------===//
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "passes/plan/Passes.h"
#include "passes/plan/PlanRemarks.h"
#include "passes/plan/ProblemAttributes.h"
#include "passes/plan/SearchPlan.h"
#include "runtime/planner/json/ClusterJson.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_SEARCHPLAN
#include "passes/plan/Passes.h.inc"

namespace {

struct SearchPlan : impl::SearchPlanBase<SearchPlan> {
  using SearchPlanBase::SearchPlanBase;

  void runOnOperation() override {
    if (failed(search()))
      signalPassFailure();
  }

private:
  LogicalResult search() {
    if (stages < 0)
      return getOperation().emitError("omnibal-search-plan: stages must be >= 0");
    if (stages > 0) {
      planner::Cluster cluster;
      cluster.stages = stages;
      cluster.link = cluster.dataParallelLink = planner::defaultLink;
      if (memoryLimitBytes > 0)
        cluster.memoryBytes = {memoryLimitBytes};
      plan::writeCluster(getOperation(), cluster);
    }
    plan::PlanChoices choices;
    choices.method = method;
    choices.remat = remat;
    choices.schedule = schedule;
    choices.microbatches = microbatches;
    choices.planFile = plan;
    FailureOr<plan::StagePlan> found = plan::searchStages(getOperation(), choices);
    if (failed(found))
      return failure();
    plan::explainPlan(getOperation(), *found);
    return success();
  }
};

} // namespace
} // namespace omnibal
