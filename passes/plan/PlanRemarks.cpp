#include "passes/plan/PlanRemarks.h"
#include "dialects/omnibal/analysis/LayerGraph.h"
#include "mlir/IR/Remarks.h"
#include "runtime/planner/search/PlanReasons.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace omnibal::plan {
namespace {

void add(Location loc, StringRef name, const std::string &text) {
  remark::analysis(loc, remark::RemarkOpts::name(name).category("omnibal-partition")) << text;
}

std::string figuresOf(const StagePlan &planned, size_t chunk, StringRef first) {
  const planner::Plan &plan = planned.plan;
  const planner::StageFigures &stage = planned.timeline.stages[plan.chunkStage[chunk]];
  return llvm::formatv("stage {0} begins with {1}: {2} layers, forward {3} ns, backward {4} ns, "
                       "idle {5} ns, peak {6} bytes, reserved {7} bytes",
                       chunk, first, plan.cuts[chunk + 1] - plan.cuts[chunk], stage.forwardNs,
                       stage.backwardNs, stage.idleNs, stage.peakBytes,
                       planned.reservedBytes(plan.chunkStage[chunk]));
}

} // namespace

planner::Problem problemOf(const StagePlan &planned) {
  planner::Problem problem = planned.problem;
  problem.schedule = planned.plan.schedule;
  if (planned.rematFixed) {
    problem.varyRemat = false;
    problem.givenRemat = planned.plan.remat;
  }
  return problem;
}

void explainPlan(ModuleOp module, const StagePlan &planned) {
  if (!module.getContext()->getRemarkEngine())
    return;
  auto graph = LayerGraph::get(module, "omnibal-search-plan");
  if (failed(graph))
    return;
  planner::PlanReasons reasons =
      planner::explainPlan(problemOf(planned), planned.plan, planned.timeline);
  for (size_t chunk = 0; chunk + 1 < planned.plan.cuts.size(); ++chunk) {
    LayerOp first = graph->layers[planned.plan.cuts[chunk]];
    add(first.getLoc(), "stage", figuresOf(planned, chunk, first.getName()));
    add(first.getLoc(), "cut",
        planner::describeChunk(planned.problem, planned.plan, planned.timeline, reasons, chunk));
  }
  if (std::string text = planner::describeResources(planned.plan, reasons); !text.empty())
    add(graph->main.getLoc(), "resources", text);
}

} // namespace omnibal::plan
