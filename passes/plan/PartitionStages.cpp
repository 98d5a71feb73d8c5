//===- PartitionStages.cpp - omnibal-partition-stages ------------------------------------===//
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "mlir/Pass/PassManager.h"
#include "passes/cost/Passes.h"
#include "passes/plan/Passes.h"
#include "passes/plan/PlanRemarks.h"
#include "passes/plan/PlanStages.h"
#include "runtime/planner/json/ClusterJson.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_PARTITIONSTAGES
#include "passes/plan/Passes.h.inc"

namespace {

struct PartitionStages : impl::PartitionStagesBase<PartitionStages> {
  using PartitionStagesBase::PartitionStagesBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<OmnibalDialect, PlanDialect, func::FuncDialect, arith::ArithDialect,
                    math::MathDialect>();
  }

  void runOnOperation() override {
    plan::PlanOptions plan;
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
    FailureOr<plan::PlannedModule> planned = plan::planStages(getOperation(), plan);
    if (failed(planned))
      return signalPassFailure();
    plan::explainPlan(getOperation(), *planned);
    OpPassManager verify(ModuleOp::getOperationName());
    verify.addPass(createVerifyPlan());
    if (failed(runPipeline(verify, getOperation())))
      signalPassFailure();
  }
};

} // namespace
} // namespace omnibal
