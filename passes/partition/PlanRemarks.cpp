#include "passes/partition/PlanRemarks.h"
#include "mlir/IR/Remarks.h"
#include "passes/train/LayerGraph.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace omnibal::partition {
namespace {

constexpr const char *category = "omnibal-partition";

void explainStage(LayerOp first, const StagePlan &planned, size_t chunk) {
  const planner::Plan &plan = planned.plan;
  const planner::RankFigures &rank = planned.timeline.ranks[plan.chunkRank[chunk]];
  std::string text =
      llvm::formatv("stage {0} begins with {1}: {2} layers, forward {3} ns, backward "
                    "{4} ns, idle {5} ns, peak {6} bytes",
                    chunk, first.getName(), plan.cuts[chunk + 1] - plan.cuts[chunk], rank.forwardNs,
                    rank.backwardNs, rank.idleNs, rank.peakBytes);
  remark::analysis(first.getLoc(), remark::RemarkOpts::name("stage").category(category)) << text;
}

} // namespace

void explainPlan(ModuleOp module, const StagePlan &planned) {
  if (!module.getContext()->getRemarkEngine())
    return;
  auto graph = LayerGraph::get(module, "omnibal-search-plan");
  if (failed(graph))
    return;
  for (size_t chunk = 0; chunk + 1 < planned.plan.cuts.size(); ++chunk)
    explainStage(graph->layers[planned.plan.cuts[chunk]], planned, chunk);
}

} // namespace omnibal::partition
