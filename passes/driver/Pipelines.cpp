//===- Pipelines.cpp - The named pipelines -----------------------------------------------===//
#include "passes/driver/Pipelines.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/cost/InputFiles.h"
#include "passes/cost/Passes.h"
#include "passes/differentiate/Passes.h"
#include "passes/driver/CompileRecord.h"
#include "passes/export/Passes.h"
#include "passes/layers/Passes.h"
#include "passes/lower/Lowering.h"
#include "passes/plan/Passes.h"
#include "passes/raise/Passes.h"
#include "passes/schedule/Passes.h"
#include "passes/shard/Passes.h"
#include "passes/shard/search/Passes.h"
#include "passes/specialize/Passes.h"

using namespace mlir;

namespace omnibal {
namespace {

/// A member of the record, which lives as long as any pass that writes it.
template <typename T>
std::shared_ptr<T> share(const std::shared_ptr<CompileRecord> &record, T CompileRecord::*member) {
  return std::shared_ptr<T>(record, &((*record).*member));
}

llvm::SmallVector<std::string>
listOf(const mlir::detail::PassOptions::ListOption<std::string> &option) {
  return {option.begin(), option.end()};
}

using SharedFiles = std::shared_ptr<cost::InputFiles>;

/// Its replicas say how the data's batches are shared.
void addCluster(OpPassManager &passes, const PlanningOptions &planning, const SharedFiles &files) {
  AttachClusterOptions cluster;
  cluster.cluster = planning.cluster;
  cluster.ranks = planning.ranks;
  if (planning.ranks == 0) {
    cluster.stages = planning.stages;
    cluster.dataParallel = planning.dataParallel;
    cluster.rankOrder = planning.rankOrder;
  }
  cluster.zero = planning.zero;
  cluster.parts = planning.ranks == 0 ? planning.parts : 1; // a search divides ranks into parts
  cluster.memoryLimitBytes = planning.memoryLimitBytes;
  cluster.calibration = listOf(planning.calibration);
  passes.addPass(createAttachCluster(cluster, files));
}

SearchLayoutsOptions layoutOptions(const CapsOptions &caps, const TargetOptions &target,
                                   const PlanningOptions &planning) {
  SearchLayoutsOptions search;
  search.tiles = caps.tiles;
  search.tokens = caps.tokens;
  search.target = target.target;
  search.compute = target.compute;
  search.device = planning.device;
  search.cluster = planning.cluster;
  search.price = planning.layoutPrice;
  return search;
}

/// What the parts of a stage do, before costs are stated of it.
void addLayouts(OpPassManager &passes, const CapsOptions &caps, const TargetOptions &target,
                const PlanningOptions &planning, const SharedFiles &files) {
  if (planning.ranks > 0 || planning.parts == 1 || planning.layouts.empty() ||
      planning.layouts == noLayouts)
    return;
  addLayoutPasses(passes, planning.layouts, layoutOptions(caps, target, planning), files);
}

void addCosts(OpPassManager &passes, const CapsOptions &caps, const TargetOptions &target,
              const PlanningOptions &planning, std::shared_ptr<cost::CostReports> reports,
              const SharedFiles &files) {
  AnnotateCostsOptions costs;
  costs.tiles = caps.tiles;
  costs.tokens = caps.tokens;
  costs.target = target.target;
  costs.compute = target.compute;
  costs.device = planning.device;
  costs.cluster = planning.cluster;
  costs.calibration = listOf(planning.calibration);
  const bool isStepPlanned = planning.schedule.getValue() == perStepSchedule;
  costs.splitBackward =
      planning.schedule == "zb-h1" || planning.schedule == "auto" || isStepPlanned;
  costs.timeModels = isStepPlanned;
  costs.batches = planning.batches;
  costs.microbatches = planning.microbatches;
  passes.addPass(createAnnotateCosts(costs, std::move(reports), files));
}

void addLengthGroups(OpPassManager &passes, const CompileOptions &options,
                     std::shared_ptr<plan::LengthGroupReport> report, const SharedFiles &files) {
  SearchLengthGroupsOptions groups;
  groups.lengths = options.lengths;
  groups.output = options.lengthGroups;
  groups.degrees = {options.degrees.begin(), options.degrees.end()};
  groups.tokensPerStep = options.tokensPerStep;
  groups.microbatches = options.microbatches;
  groups.schedule = options.schedule;
  groups.target = options.target;
  groups.compute = options.compute;
  groups.device = options.device;
  groups.cluster = options.cluster;
  groups.calibration = listOf(options.calibration);
  passes.addPass(createSearchLengthGroups(groups, std::move(report), files));
}

/// What a search may choose, whoever says how the ranks are divided.
template <typename PassOptionsT> PassOptionsT searchOptions(const PlanningOptions &planning) {
  PassOptionsT search;
  search.method = planning.method;
  search.remat = planning.remat;
  search.schedule = planning.schedule;
  search.subMicrobatches = planning.subMicrobatches;
  return search;
}

void addSearch(OpPassManager &passes, const PlanningOptions &planning,
               std::shared_ptr<plan::ModePlans> found) {
  auto search = searchOptions<SearchPlanOptions>(planning);
  search.microbatches = planning.microbatches;
  search.plan = planning.plan;
  passes.addPass(createSearchPlan(search, std::move(found)));
}

void addRankSearch(OpPassManager &passes, const CapsOptions &caps, const TargetOptions &target,
                   const PlanningOptions &planning, const std::shared_ptr<CompileRecord> &record,
                   const SharedFiles &files) {
  auto search = searchOptions<SearchRanksOptions>(planning);
  search.ranks = planning.ranks;
  search.groups = planning.groups;
  search.stages = planning.stages;
  search.dataParallel = planning.dataParallel;
  search.zero = planning.zero;
  search.rankOrder = planning.rankOrder;
  search.cluster = planning.cluster;
  search.parts = planning.parts;
  search.layouts = planning.layouts;
  search.layoutPrice = planning.layoutPrice;
  search.tiles = caps.tiles;
  search.tokens = caps.tokens;
  search.target = target.target;
  search.compute = target.compute;
  search.device = planning.device;
  search.calibration = listOf(planning.calibration);
  passes.addPass(createSearchRanks(search, share(record, &CompileRecord::plans),
                                   share(record, &CompileRecord::ranks),
                                   share(record, &CompileRecord::costs), files));
}

/// A program with one training mode, planned.
void addPlan(OpPassManager &passes, const CapsOptions &caps, const TargetOptions &target,
             const PlanningOptions &planning, const std::shared_ptr<CompileRecord> &record,
             const SharedFiles &files) {
  // Where parts are to be divided by a search, costs are those of what it finds.
  if (planning.ranks == 0 || planning.parts <= 1)
    addCosts(passes, caps, target, planning, share(record, &CompileRecord::costs), files);
  if (planning.ranks > 0)
    addRankSearch(passes, caps, target, planning, record, files);
  else
    addSearch(passes, planning, share(record, &CompileRecord::plans));
}

/// The module of each training mode, planned and in form C with its schedule.
void addModes(OpPassManager &passes, const CompileOptions &options,
              const std::shared_ptr<CompileRecord> &record, const SharedFiles &files) {
  // Here, as all before is the same for all caps, and costs are not.
  SplitModesOptions split;
  split.batches = options.batches;
  split.tokens = options.tokens;
  split.schedule = options.schedule;
  split.remat = options.remat;
  passes.addPass(createSplitModes(split));
  // What ranks of a context group do; without one nothing.
  addLayoutPasses(passes.nest<ModuleOp>(), searchedLayouts,
                  layoutOptions(options, options, options), files);
  addCosts(passes, options, options, options, share(record, &CompileRecord::costs), files);
  // All modes together, because they share their cuts.
  SearchModePlansOptions plans;
  plans.method = options.method;
  plans.plan = options.plan;
  passes.addPass(createSearchModePlans(plans, share(record, &CompileRecord::plans)));
  buildProgramPipeline(passes.nest<ModuleOp>());
}

template <typename PassOptionsT> PassOptionsT programOptions(const CompileOptions &options) {
  PassOptionsT program;
  program.model = options.model;
  program.target = options.target;
  program.compute = options.compute;
  program.cpu = options.cpu;
  program.gpuCode = options.gpuCode;
  program.subMicrobatches = options.subMicrobatches;
  program.tiles = options.tiles;
  program.tokens = options.tokens;
  return program;
}

} // namespace

void buildFindLayersPipeline(OpPassManager &passes, const CapsOptions &caps,
                             const TrainingOptions &training) {
  // Each form is checked where it is reached, in release builds too: what follows trusts it.
  passes.addPass(createVerifyImported());
  // Before anything is matched: without dropout the graph is that of evaluation.
  passes.addPass(createChooseDropout({training.dropout}));
  // Shapes first: everything later reads sizes from types.
  passes.addPass(createSpecializePass());
  passes.addPass(createVerifySpecialized());
  buildRaisePipeline(passes, caps.tokens, training.routerLossCoefficient);
  passes.addPass(createFormLayersPass());
  passes.addPass(createVerifyLayers());
  // What a layer draws depends on the layer, and the model's own draws come before added ones.
  passes.addPass(createDrawDropout());
  if (training.neftune > 0)
    passes.addPass(createAddEmbeddingNoise({training.neftune}));
  // Adapters are parameters of layers, and equal layers stay equal.
  if (!training.lora.empty()) {
    AddAdaptersOptions adapters;
    adapters.match = training.lora;
    adapters.rank = training.loraRank;
    adapters.alpha = training.loraAlpha;
    adapters.rankStabilized = training.rslora;
    adapters.dropout = training.loraDropout;
    adapters.dora = training.dora;
    adapters.save = training.modulesToSave;
    passes.addPass(createAddAdapters(adapters));
  }
  // Freezing names parts, so it needs layers; the loss follows because the gradient's reach,
  // which decides what is saved, depends on both.
  if (!training.freeze.empty() || !training.freezeMatch.empty()) {
    FreezeOptions freeze;
    freeze.components = listOf(training.freeze);
    freeze.match = training.freezeMatch;
    passes.addPass(createFreeze(freeze));
  }
  passes.addPass(
      createAttachLoss({training.loss, training.dpoBeta, training.labelSmoothing, training.zLoss}));
  // What is frozen is known, and the head's weight is that of its loss.
  if (!training.quantizeFrozen.empty())
    passes.addPass(createQuantizeFrozen({training.quantizeFrozen, training.quantizeMatch}));
  passes.addPass(createAttachOptimizer({training.optimizer, training.ema}));
}

void buildPlanStagesPipeline(OpPassManager &passes, const PlanStagesOptions &options) {
  auto files = std::make_shared<cost::InputFiles>();
  addCluster(passes, options, files);
  addLayouts(passes, options, options, options, files);
  addPlan(passes, options, options, options, std::make_shared<CompileRecord>(), files);
  passes.addPass(createVerifyPlan());
}

void buildProgramPipeline(OpPassManager &passes) {
  // Whoever made the plan; what follows trusts it.
  passes.addPass(createVerifyPlan());
  // Which functions are built depends on the plan: what is recomputed, whose backward is split.
  passes.addPass(createMaterializeLayers());
  passes.addPass(createVerifyFunctions());
  // Messages depend on which gradients the functions give, so they follow the functions.
  passes.addPass(createMaterializeSchedule());
}

void buildFittedProgramPipeline(OpPassManager &passes, const CompileOptions &options,
                                const std::shared_ptr<CompileRecord> &record) {
  auto files = std::make_shared<cost::InputFiles>();
  // The cluster first, as the costs of data are those of its replicas' shares.
  addCluster(passes, options, files);
  addLayouts(passes, options, options, options, files);
  // Length groups need costs at caps of their own, so they come before those of the program.
  if (!options.lengthGroups.empty())
    addLengthGroups(passes, options, share(record, &CompileRecord::lengthGroups), files);
  if (!options.makesProgram())
    return;
  if (options.trainModes) {
    addModes(passes, options, record, files);
  } else {
    addPlan(passes, options, options, options, record, files);
    buildProgramPipeline(passes);
  }
  // Last, because it lowers every function for what the schedule runs.
  passes.addPass(createLayOutProgram(programOptions<LayOutProgramPassOptions>(options),
                                     share(record, &CompileRecord::laidOut)));
}

void buildCompilePipeline(OpPassManager &passes, const CompileOptions &options,
                          const std::shared_ptr<CompileRecord> &record) {
  buildFindLayersPipeline(passes, options, options);
  buildFittedProgramPipeline(passes, options, record);
  if (options.output.empty() || !options.makesProgram())
    return;
  auto program = programOptions<ExportProgramPassOptions>(options);
  program.output = options.output;
  program.cudaToolkit = options.cudaToolkit;
  passes.addPass(createExportProgram(program, share(record, &CompileRecord::laidOut)));
}

void registerAllPasses() {
  registerOmnibalSpecializePasses();
  registerRaisePasses();
  registerOmnibalLayersPasses();
  registerOmnibalShardPasses();
  registerOmnibalShardSearchPasses();
  registerOmnibalDifferentiatePasses();
  registerOmnibalCostPasses();
  registerOmnibalPlanPasses();
  registerOmnibalSchedulePasses();
  registerOmnibalExportPasses();
  lower::registerLowerPasses();
  PassPipelineRegistration<FindLayersOptions>(
      "omnibal-find-layers", "Form I to form L with a loss",
      [](OpPassManager &passes, const FindLayersOptions &options) {
        buildFindLayersPipeline(passes, options, options);
      });
  PassPipelineRegistration<PlanStagesOptions>("omnibal-plan-stages",
                                              "Form L with a loss to form P with costs, verified",
                                              buildPlanStagesPipeline);
  PassPipelineRegistration<>("omnibal-program",
                             "Form P with costs to form C with messages and actions",
                             buildProgramPipeline);
  PassPipelineRegistration<CompileOptions>(
      "omnibal-compile", "Form I to a program directory: all that omnibal-compile does",
      [](OpPassManager &passes, const CompileOptions &options) {
        buildCompilePipeline(passes, options, std::make_shared<CompileRecord>());
      });
}

} // namespace omnibal
