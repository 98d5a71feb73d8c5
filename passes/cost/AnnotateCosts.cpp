//===- AnnotateCosts.cpp - omnibal-annotate-costs -------------------------------------------===//
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "passes/common/OptimizerAttribute.h"
#include "passes/common/ProblemAttributes.h"
#include "passes/common/StepSamples.h"
#include "passes/common/TrainModes.h"
#include "passes/cost/BatchLoads.h"
#include "passes/cost/CostInputs.h"
#include "passes/cost/MeasuredTimes.h"
#include "passes/cost/ModesFile.h"
#include "passes/cost/Passes.h"
#include "passes/shard/LayerLayouts.h"

using namespace mlir;

namespace omnibal {
#define GEN_PASS_DEF_ANNOTATECOSTS
#include "passes/cost/Passes.h.inc"

namespace {

struct AnnotateCosts : impl::AnnotateCostsBase<AnnotateCosts> {
  using AnnotateCostsBase::AnnotateCostsBase;
  AnnotateCosts(const AnnotateCostsOptions &options, std::shared_ptr<cost::CostReports> reports,
                std::shared_ptr<cost::InputFiles> files)
      : AnnotateCostsBase(options), files(std::move(files)), reports(std::move(reports)) {}

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

  /// One mode after the other: lowering loads dialects, which no two threads may do.
  void runOnOperation() override {
    FailureOr<SmallVector<ModuleOp>> modes = trainModesOf(getOperation());
    if (failed(modes))
      return signalPassFailure();
    if (modes->empty())
      modes->push_back(getOperation());
    if (reports)
      reports->clear();
    for (ModuleOp module : *modes)
      if (failed(annotate(module)))
        return signalPassFailure();
  }

private:
  rt::Status readInputs() {
    OMNIBAL_ASSIGN_OR_RETURN(costs, readOptions());
    if (tiles < 0 || tokens < 1 || microbatches < 1)
      return rt::invalid(
          "omnibal-annotate-costs: tiles must be >= 0, tokens and microbatches >= 1");
    return rt::Status::ok();
  }

  rt::Result<cost::CostOptions> readOptions() {
    cost::CostInputs inputs{"omnibal-annotate-costs", target, compute, device, cluster, {}};
    inputs.calibration.assign(calibration.begin(), calibration.end());
    return cost::readCostOptions(inputs, *files);
  }

  /// What Muon's matrices cannot be: they are updated whole, by the host's kernels, and so are all
  /// of Adafactor's parameters. Parameters whose moments have blocks are whole, too.
  LogicalResult checkOptimizer(ModuleOp module) {
    const rt::OptimizerKind kind = optimizerOf(module);
    const bool ofMatrices = rt::updatesMatrices(kind), ofAll = rt::needsWholeParameters(kind);
    if (!ofMatrices && !ofAll)
      return success();
    const std::string start = std::string("--optimizer ") + rt::nameOf(kind) + ": ";
    auto cluster = module->getAttrOfType<ClusterAttr>(clusterAttrName);
    if (ofMatrices && target != "host")
      return module.emitError() << start << "target " << target.getValue()
                                << " has no such update; choose another one, or --target host";
    if (ofMatrices && cluster && cluster.getZero() > 0)
      return module.emitError() << start
                                << "with --zero 1 replicas divide matrices, which this optimizer "
                                   "needs whole; say --zero 0";
    for (auto parameter : module.getOps<ParameterOp>())
      if (auto held = parameter->getAttrOfType<LayoutAttr>(shard::heldAttrName);
          held && held.isSplit() &&
          (parameter->hasAttr(orthogonalizedAttrName) || (ofAll && !parameter.getFrozen())))
        return parameter.emitError()
               << start << "layouts split this " << (ofAll ? "parameter" : "matrix")
               << ", which this optimizer needs whole"
               << (ofAll ? "; say --layouts none, or choose another one" : "");
    return success();
  }

  LogicalResult annotate(ModuleOp module) {
    if (failed(checkOptimizer(module)))
      return failure();
    const Caps caps = capsOf(module);
    cost::CostOptions options = costs;
    options.load = {caps.tiles, caps.tokens};
    options.timeModels = timeModels;
    // Of its own in every run: it collects what the layers of this module are compared with.
    if (options.measured)
      options.measured =
          std::make_shared<cost::MeasuredTimes>(*options.measured, caps.splitBackward);
    cost::EpochLoads epoch;
    if (!batches.empty()) {
      if (failed(readEpoch(module, caps, epoch)))
        return failure();
      options.load = cost::loadAtCaps(epoch, caps.tiles, caps.tokens);
    }
    auto model = cost::CostModel::build(module, options);
    if (failed(model))
      return failure();
    FailureOr<cost::UnitCostTable> units = (*model)->annotate(options.load);
    if (costs.measured) // a table may know nothing of a later mode's functions
      costs.measured->assume(options.measured->scale());
    // What ranks of a context group run differs from what the model's digest is of.
    if (failed(units) || (caps.degree == 1 && failed(checkModel((*model)->digest()))))
      return failure();
    cost::CostReport report{std::move(*units), options.device, options.load, !calibration.empty(),
                            std::move(epoch)};
    report.partsLink = cost::linkIn(module, options.partsLink).of(shard::partsOf(module));
    if (!batches.empty())
      annotateLoads(module, report, caps);
    if (timeModels) {
      module->setAttr(actionNsAttrName,
                      Builder(&getContext())
                          .getI64IntegerAttr(options.measured ? options.measured->actionNs() : 0));
      plan::writeStepSamples(getOperation(),
                             {caps.tiles, caps.tokens,
                              cost::sampleSteps(report.epoch, caps.microbatches, options.load)});
    }
    if (reports)
      reports->push_back(std::move(report));
    return success();
  }

  /// Length groups of another model have the costs of that one.
  LogicalResult checkModel(const std::string &functions) {
    ModuleOp program = getOperation();
    auto given = program->getAttrOfType<StringAttr>(givenModelAttrName);
    auto cuts = program->getAttrOfType<DenseI64ArrayAttr>(givenCutsAttrName);
    if (!given || !cuts || given.getValue() == cost::modelDigest(functions, cuts.asArrayRef()))
      return success();
    return emitError(UnknownLoc::get(&getContext()))
           << batches << "/groups.json: `model` is the digest of another model, or of this one for "
           << "another --target, --dtype, --freeze or --lora; make length groups for this one "
           << "(--emit-length-groups) and run omnibal-batch with them, or leave the field out";
  }

  /// Of a program, as the options say; of a training mode its own.
  struct Caps {
    int64_t tiles, tokens, microbatches;
    bool splitBackward;
    std::optional<int64_t> mode;
    int64_t degree = 1;
  };
  Caps capsOf(ModuleOp module) const {
    TrainModeAttr mode = trainModeOf(module);
    if (!mode)
      return {tiles, tokens, microbatches, splitBackward, std::nullopt, 1};
    StringRef schedule = mode.getSchedule();
    return {mode.getTiles(),        mode.getTokens(),
            mode.getMicrobatches(), schedule == "zb-h1" || schedule == "auto",
            mode.getNumber(),       mode.getDegree()};
  }

  LogicalResult readEpoch(ModuleOp module, const Caps &caps, cost::EpochLoads &epoch) {
    auto of = module->getAttrOfType<ClusterAttr>(clusterAttrName);
    if (!of)
      return module.emitError("omnibal-annotate-costs: the module has no omnibal.cluster, "
                              "which says how many replicas share the batches; run "
                              "omnibal-attach-cluster before");
    auto loads = caps.mode
                     ? cost::readModeLoads(batches, of.getDataParallel() / caps.degree, *caps.mode)
                     : cost::readBatchLoads(batches, of.getDataParallel(), caps.tiles, caps.tokens);
    if (!loads)
      return emitError(UnknownLoc::get(&getContext()), loads.status().message());
    epoch = *std::move(loads);
    return success();
  }

  void annotateLoads(ModuleOp module, const cost::CostReport &report, const Caps &caps) {
    std::vector<planner::LoadFactors> loads;
    for (const cost::GroupLoad &microbatch :
         cost::typicalStep(report.epoch, caps.microbatches, report.units.of({})))
      loads.push_back(report.factorsOf(microbatch));
    plan::writeLoads(module, loads);
  }

  cost::CostOptions costs; ///< without the load
  std::shared_ptr<cost::InputFiles> files = std::make_shared<cost::InputFiles>();
  std::shared_ptr<cost::CostReports> reports;
};

} // namespace

std::unique_ptr<Pass> createAnnotateCosts(const AnnotateCostsOptions &options,
                                          std::shared_ptr<cost::CostReports> reports,
                                          std::shared_ptr<cost::InputFiles> files) {
  return std::make_unique<AnnotateCosts>(options, std::move(reports), std::move(files));
}

} // namespace omnibal
