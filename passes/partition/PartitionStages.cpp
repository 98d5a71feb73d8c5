//===- PartitionStages.cpp - omnibal-partition-stages ------------------------------------===//
#include "dialects/omnibal/OmnibalOps.h"
#include "dialects/omnibal/OmnibalPlanAttrs.h"
#include "mlir/Pass/PassManager.h"
#include "passes/cost/Passes.h"
#include "passes/partition/Passes.h"
#include "passes/partition/PlanRemarks.h"
#include "passes/partition/PlanStages.h"
#include "passes/planner/ClusterJson.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_PARTITIONSTAGES
#include "passes/partition/Passes.h.inc"

namespace {

struct PartitionStages : impl::PartitionStagesBase<PartitionStages> {
  using PartitionStagesBase::PartitionStagesBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<OmnibalDialect, PlanDialect, func::FuncDialect, arith::ArithDialect,
                    math::MathDialect>();
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
    plan.cluster.link = plan.cluster.dataParallelLink = planner::defaultLink;
    if (memoryLimitBytes > 0)
      plan.cluster.memoryBytes = {memoryLimitBytes};
    FailureOr<partition::PlannedModule> planned = partition::planStages(getOperation(), plan);
    if (failed(planned))
      return signalPassFailure();
    partition::explainPlan(getOperation(), *planned);
    OpPassManager verify(ModuleOp::getOperationName());
    verify.addPass(createVerifyPlan());
    if (failed(runPipeline(verify, getOperation())))
      signalPassFailure();
  }
};

} // namespace
} // namespace omnibal
