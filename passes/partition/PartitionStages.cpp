//===- PartitionStages.cpp - omnibal-partition-stages ------------------------------------===//
#include "mlir/IR/Remarks.h"
#include "passes/partition/Passes.h"
#include "passes/partition/PlanStages.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_PARTITIONSTAGES
#include "passes/partition/Passes.h.inc"

namespace {

struct PartitionStages : impl::PartitionStagesBase<PartitionStages> {
  using PartitionStagesBase::PartitionStagesBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<OmnibalDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect>();
  }

  void runOnOperation() override {
    partition::PlanOptions plan;
    llvm::Expected<cost::Device> found = cost::findDevice(device.getValue());
    if (!found) {
      getOperation().emitError(llvm::toString(found.takeError()));
      return signalPassFailure();
    }
    plan.device = std::move(*found);
    plan.method = method;
    plan.remat = remat;
    plan.schedule = schedule;
    plan.planFile = this->plan;
    plan.microbatches = microbatches;
    plan.load = {tiles, tokens};
    plan.cluster.stages = stages;
    plan.cluster.link = plan.cluster.dataParallelLink = {10000, 10000000000};
    if (memoryLimitBytes > 0)
      plan.cluster.memoryBytes = {memoryLimitBytes};
    FailureOr<partition::PlannedModule> planned = partition::planStages(getOperation(), plan);
    if (failed(planned))
      return signalPassFailure();
    explain(*planned);
  }

  /// One remark a stage, at its first layer.
  void explain(const partition::PlannedModule &planned) {
    int64_t index = 0, chunk = 0;
    for (LayerOp layer : getOperation().lookupSymbol<func::FuncOp>("main").getOps<LayerOp>()) {
      if (chunk + 1 < static_cast<int64_t>(planned.plan.cuts.size()) &&
          index == planned.plan.cuts[chunk]) {
        const planner::RankFigures &rank = planned.timeline.ranks[chunk];
        std::string text = llvm::formatv(
            "stage {0} begins with {1}: {2} layers, forward {3} ns, backward {4} ns, "
            "idle {5} ns, peak {6} bytes",
            chunk, layer.getName(), planned.plan.cuts[chunk + 1] - planned.plan.cuts[chunk],
            rank.forwardNs, rank.backwardNs, rank.idleNs, rank.peakBytes);
        remark::analysis(layer.getLoc(),
                         remark::RemarkOpts::name("stage").category("omnibal-partition"))
            << text;
        ++chunk;
      }
      ++index;
    }
  }
};

} // namespace
} // namespace omnibal
