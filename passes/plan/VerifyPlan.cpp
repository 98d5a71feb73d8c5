//===- VerifyPlan.cpp - omnibal-verify-plan -------------------------------------------------===//
//
// The search is not involved: attributes are read as a problem and a plan, and the planner's
// verifier judges them (planner/VerifyPlan.h; rules plan_c1 ..).
//
//===----------------------------------------------------------------------------------------===//
#include "runtime/planner/evaluate/VerifyPlan.h"
#include "dialects/omnibal/analysis/LayerGraph.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "passes/common/ProblemAttributes.h"
#include "passes/plan/Passes.h"
#include "runtime/planner/model/ProblemSize.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_VERIFYPLAN
#include "passes/plan/Passes.h.inc"

namespace {

struct VerifyPlan : impl::VerifyPlanBase<VerifyPlan> {
  using VerifyPlanBase::VerifyPlanBase;

  void runOnOperation() override {
    if (failed(verify()))
      signalPassFailure();
  }

private:
  LogicalResult verify() {
    constexpr StringLiteral pass = "omnibal-verify-plan";
    auto problem = plan::readProblem(getOperation(), pass);
    if (failed(problem))
      return failure();
    auto plan = plan::readPlan(getOperation(), pass);
    if (failed(plan))
      return failure();
    auto attribute = getOperation()->getAttrOfType<PlanAttr>(planAttrName);
    if (attribute.getStages() != problem->cluster.stages ||
        attribute.getDataParallel() != problem->cluster.dataParallel)
      return getOperation().emitError()
             << "plan_c2: omnibal.plan is for " << attribute.getStages() << " x "
             << attribute.getDataParallel() << " ranks, omnibal.cluster has "
             << problem->cluster.stages << " x " << problem->cluster.dataParallel;
    if (attribute.getZero() != problem->cluster.zero)
      return getOperation().emitError()
             << "plan_c2: omnibal.plan has zero = " << attribute.getZero()
             << ", omnibal.cluster zero = " << problem->cluster.zero;
    if (attribute.getParts() != problem->cluster.parts)
      return getOperation().emitError()
             << "plan_c2: omnibal.plan has parts = " << attribute.getParts()
             << ", omnibal.cluster parts = " << problem->cluster.parts;
    problem->microbatches = attribute.getMicrobatches();
    problem->schedule = plan->schedule;
    if (!problem->factors.empty() &&
        static_cast<int64_t>(problem->factors.size()) != problem->microbatches)
      return getOperation().emitError()
             << "plan_c5: omnibal.plan has " << problem->microbatches
             << " micro-batches, omnibal.loads " << problem->factors.size();
    problem->factors.clear(); // memory holds for full micro-batches
    if (std::string why = planner::tooLarge(*problem); !why.empty())
      return getOperation().emitError("the problem is too large to check a plan: ") << why;
    if (failed(takeReservedOff(*problem)))
      return failure();
    std::vector<planner::Violation> violations = planner::verifyPlan(*problem, *plan);
    for (const planner::Violation &violation : violations)
      report(violation, *plan);
    return success(violations.empty());
  }

  LogicalResult takeReservedOff(planner::Problem &problem) {
    auto reserved = getOperation()->getAttrOfType<DenseI64ArrayAttr>(reservedAttrName);
    std::vector<int64_t> &limits = problem.cluster.memoryBytes;
    if (!reserved || limits.empty())
      return success();
    if (reserved.size() != problem.cluster.stages ||
        llvm::any_of(reserved.asArrayRef(), [](int64_t bytes) { return bytes < 0; }))
      return getOperation().emitError("omnibal.reserved must have a number >= 0 for each of ")
             << problem.cluster.stages << " stages";
    limits.resize(problem.cluster.stages, limits.front());
    for (size_t r = 0; r < limits.size(); ++r)
      limits[r] = std::max<int64_t>(0, limits[r] - reserved[r]);
    return success();
  }

  /// Reports at the layer that the rule is about, or at the first one of the stage, else at the
  /// module.
  void report(const planner::Violation &violation, const planner::Plan &plan) {
    std::optional<int64_t> layer = violation.layer;
    for (size_t c = 0; violation.stage && !layer && c < plan.chunkStage.size(); ++c)
      if (plan.chunkStage[c] == *violation.stage)
        layer = plan.cuts[c];
    if (!layer) {
      getOperation().emitError() << violation.message();
      return;
    }
    auto graph = LayerGraph::get(getOperation(), "omnibal-verify-plan"); // was read before
    graph->layers[*layer].emitOpError() << violation.message();
  }
};

} // namespace
} // namespace omnibal
