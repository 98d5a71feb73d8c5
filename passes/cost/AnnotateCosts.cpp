//===- AnnotateCosts.cpp - omnibal-annotate-costs -------------------------------------------===//
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "passes/common/ProblemAttributes.h"
#include "passes/common/StepSamples.h"
#include "passes/cost/BatchLoads.h"
#include "passes/cost/InputFiles.h"
#include "passes/cost/LayerCosts.h"
#include "passes/cost/MeasuredTimes.h"
#include "passes/cost/Passes.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_ANNOTATECOSTS
#include "passes/cost/Passes.h.inc"

namespace {

struct AnnotateCosts : impl::AnnotateCostsBase<AnnotateCosts> {
  using AnnotateCostsBase::AnnotateCostsBase;
  AnnotateCosts(const AnnotateCostsOptions &options, std::shared_ptr<cost::CostReport> report,
                std::shared_ptr<cost::InputFiles> files)
      : AnnotateCostsBase(options), files(std::move(files)), report(std::move(report)) {}

  void getDependentDialects(DialectRegistry &registry) const override {
    AnnotateCostsBase::getDependentDialects(registry);
    // Layers are lowered on the way.
    registry.insert<OmnibalDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect>();
  }

  /// A wrong file is found before the first pass of the pipeline runs.
  LogicalResult initialize(MLIRContext *context) override {
    if (rt::Status error = readInputs(); !error)
      return emitError(UnknownLoc::get(context), error.message());
    return success();
  }

  void runOnOperation() override {
    if (failed(annotate()))
      signalPassFailure();
  }

private:
  rt::Status readInputs() {
    if (target != "host" && target != "cuda")
      return rt::invalid("omnibal-annotate-costs: unknown target `" + target +
                         "` (known: host, cuda)");
    std::string precision = compute;
    if (precision.empty())
      precision = target == "cuda" ? "bfloat16" : "float32";
    if (precision != "float32" && precision != "bfloat16")
      return rt::invalid("omnibal-annotate-costs: cannot compute in `" + precision +
                         "` (known: float32, bfloat16)");
    if (tiles < 0 || tokens < 1 || microbatches < 1)
      return rt::invalid(
          "omnibal-annotate-costs: tiles must be >= 0, tokens and microbatches >= 1");
    costs = {};
    if (precision == "bfloat16")
      costs.precision = cost::mixedPrecision();
    costs.precision.target = target;
    OMNIBAL_ASSIGN_OR_RETURN(costs.device, findDevice());
    OMNIBAL_ASSIGN_OR_RETURN(measured, files->calibrations(*calibration, target, precision));
    return rt::Status::ok();
  }

  rt::Result<cost::Device> findDevice() {
    std::string name = device;
    if (!cluster.empty()) {
      OMNIBAL_ASSIGN_OR_RETURN(planner::ClusterFile file, files->cluster(cluster));
      if (file.deviceObject)
        return cost::readDevice(*file.deviceObject, cluster + ".device");
      if (name.empty())
        name = file.deviceName;
    }
    return cost::findDevice(!name.empty() ? name : target == "cuda" ? "h100" : "cpu");
  }

  LogicalResult annotate() {
    cost::CostOptions options = costs;
    options.load = {tiles, tokens};
    options.timeModels = timeModels;
    // Of its own in every run: it collects what the layers of this module are compared with.
    if (!calibration.empty())
      options.measured = std::make_shared<cost::MeasuredTimes>(measured, splitBackward);
    cost::EpochLoads epoch;
    if (!batches.empty()) {
      if (failed(readEpoch(epoch)))
        return failure();
      options.load = cost::loadAtCaps(epoch, tiles, tokens);
    }
    FailureOr<cost::UnitCostTable> units = cost::annotateCosts(getOperation(), options);
    if (failed(units))
      return failure();
    if (!batches.empty())
      annotateLoads(epoch, *units, options.load);
    if (timeModels) {
      getOperation()->setAttr(
          actionNsAttrName,
          Builder(&getContext())
              .getI64IntegerAttr(options.measured ? options.measured->actionNs() : 0));
      plan::writeStepSamples(getOperation(),
                             {tiles, tokens, cost::sampleSteps(epoch, microbatches, options.load)});
    }
    if (report)
      *report = {std::move(*units), options.device};
    return success();
  }

  LogicalResult readEpoch(cost::EpochLoads &epoch) {
    auto of = getOperation()->getAttrOfType<ClusterAttr>(clusterAttrName);
    if (!of)
      return getOperation().emitError("omnibal-annotate-costs: the module has no omnibal.cluster, "
                                      "which says how many replicas share the batches; run "
                                      "omnibal-attach-cluster before");
    auto loads = cost::readBatchLoads(batches, of.getDataParallel(), tiles, tokens);
    if (!loads)
      return emitError(UnknownLoc::get(&getContext()), loads.status().message());
    epoch = *std::move(loads);
    return success();
  }

  void annotateLoads(const cost::EpochLoads &epoch, const cost::UnitCostTable &units,
                     const cost::MicrobatchLoad &full) {
    std::vector<planner::LoadFactors> loads;
    const cost::UnitCosts costs = units.of({});
    for (const cost::GroupLoad &microbatch : cost::typicalStep(epoch, microbatches, costs)) {
      planner::LoadFactors times = units.factorsOf(microbatch, full);
      if (!calibration.empty()) {
        loads.push_back(std::move(times));
        continue;
      }
      loads.push_back(cost::factorsOf(microbatch, tiles, tokens));
      // Equal units are not equal work where attention is within pictures.
      if (costs.tileSquareNs > 0 && times.count("vision"))
        loads.back()["vision"] = times["vision"];
    }
    plan::writeLoads(getOperation(), loads);
  }

  cost::CostOptions costs; ///< without the load
  cost::Calibration measured;
  std::shared_ptr<cost::InputFiles> files = std::make_shared<cost::InputFiles>();
  std::shared_ptr<cost::CostReport> report;
};

} // namespace

std::unique_ptr<Pass> createAnnotateCosts(const AnnotateCostsOptions &options,
                                          std::shared_ptr<cost::CostReport> report,
                                          std::shared_ptr<cost::InputFiles> files) {
  return std::make_unique<AnnotateCosts>(options, std::move(report), std::move(files));
}

} // namespace omnibal
