//===- CompileDriver.cpp - Import, one pipeline, and what is printed of it ---------------===//
#include "tools/omnibal-compile/CompileDriver.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "importers/onnx/OnnxImporter.h"
#include "passes/driver/CompileRecord.h"
#include "passes/driver/Pipelines.h"
#include "passes/plan/PlanRemarks.h"
#include "runtime/planner/json/ChoiceJson.h"
#include "runtime/planner/json/ProblemJson.h"
#include "runtime/planner/search/PlanReasons.h"
#include "runtime/program/MovesText.h"
#include "runtime/program/Names.h"
#include "runtime/program/Workspace.h"
#include "runtime/support/AtomicFile.h"
#include "tools/omnibal-compile/AdapterText.h"
#include "tools/omnibal-compile/BatchCost.h"
#include "tools/omnibal-compile/Diagnostics.h"
#include "tools/omnibal-compile/EpochPrediction.h"
#include "tools/omnibal-compile/LengthGroupOptions.h"
#include "tools/omnibal-compile/LengthGroupTable.h"
#include "tools/omnibal-compile/LongestSample.h"
#include "tools/omnibal-compile/Progress.h"
#include "tools/omnibal-compile/SampleSteps.h"
#include "tools/omnibal-compile/StageTable.h"
#include "tools/report/RankTable.h"
#include "tools/report/Report.h"
#include "tools/report/Trace.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <set>

using namespace mlir;

namespace omnibal::compile {
namespace {

class Driver {
public:
  explicit Driver(const Options &options) : options(options) {
    DialectRegistry registry;
    registry.insert<OmnibalDialect, PlanDialect, func::FuncDialect, arith::ArithDialect,
                    math::MathDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    // An error about the whole module would print all of it.
    context.printOpOnDiagnostic(false);
  }

  int run() {
    DiagnosticPrinter printer(context, "omnibal-compile", options.model);
    if (failed(fillPipelineOptions()))
      return 1;
    if (options.dumpPassPipeline)
      return dumpPassPipeline();
    if (failed(importModel()) || failed(compile()))
      return 1;
    if (!options.emitLengthGroups.empty()) {
      llvm::outs() << lengthGroupTable(record->lengthGroups, timesOfGroups());
      if (failed(flush("writing the length groups")))
        return 1;
    }
    if (!plansProgram(options))
      return 0;
    noticeUnmeasured();
    for (size_t m = 0; m < plans().size(); ++m)
      tables.push_back(stageTable(plans()[m], tableFacts(m)));
    llvm::outs() << llvm::join(tables, "\n") << programText()
                 << adapterText(record->laidOut.program->program)
                 << quantizedText(record->laidOut.program->program);
    if (options.ranks > 0)
      llvm::outs() << report::rankTable(record->ranks.report,
                                        {"--layout-price", options.withoutParts});
    return failed(flush("writing the stage table")) || failed(writeFiles()) ? 1 : 0;
  }

private:
  LogicalResult fail(const llvm::Twine &message) {
    llvm::errs() << "omnibal-compile: error: " << message << "\n";
    return failure();
  }

  LogicalResult flush(const char *what) {
    llvm::outs().flush();
    std::error_code error = llvm::outs().error();
    if (!error)
      return success();
    llvm::outs().clear_error(); // or its destructor ends the process
    return fail(std::string("standard output: ") + what + " failed: " + error.message());
  }

  /// The command line in the pipeline's words.
  LogicalResult fillPipelineOptions() {
    pipeline.tiles = options.tiles;
    pipeline.tokens = options.tokens;
    pipeline.lengthGroups = options.emitLengthGroups;
    pipeline.lengths = options.lengths;
    pipeline.degrees = ArrayRef<int64_t>(options.degrees);
    pipeline.tokensPerStep = options.tokensPerStep;
    pipeline.freeze = ArrayRef<std::string>(options.freeze);
    pipeline.freezeMatch = options.freezeMatch;
    pipeline.lora = options.lora;
    pipeline.loraRank = options.loraRank;
    pipeline.loraAlpha = options.loraAlpha;
    pipeline.loraDropout = options.loraDropout;
    pipeline.rslora = options.rslora;
    pipeline.dora = options.dora;
    pipeline.modulesToSave = options.modulesToSave;
    pipeline.quantizeFrozen = options.quantizeFrozen;
    pipeline.quantizeMatch = options.quantizeMatch;
    if (options.routerLossCoefficient) // so many digits that it is the same number again
      pipeline.routerLossCoefficient =
          llvm::formatv("{0:e17}", *options.routerLossCoefficient).str();
    pipeline.loss = options.loss;
    pipeline.dpoBeta = options.dpoBeta;
    pipeline.labelSmoothing = options.labelSmoothing;
    pipeline.zLoss = options.zLoss;
    pipeline.dropout = options.dropout;
    pipeline.neftune = options.neftune;
    pipeline.optimizer = options.optimizer;
    pipeline.ema = options.ema;
    pipeline.target = options.target;
    pipeline.compute = options.dtype;
    pipeline.cluster = options.cluster;
    pipeline.ranks = options.ranks;
    pipeline.groups = options.groups;
    pipeline.stages = options.stages;
    pipeline.dataParallel = options.dataParallel;
    pipeline.zero = options.zero;
    pipeline.parts = options.modelParallel;
    pipeline.rankOrder = options.rankOrder == "auto" ? "" : options.rankOrder;
    pipeline.layouts = options.layouts;
    pipeline.layoutPrice = options.layoutPrice;
    pipeline.memoryLimitBytes = options.memoryLimitBytes;
    if (options.deviceGiven)
      pipeline.device = options.device;
    pipeline.calibration = ArrayRef<std::string>(options.calibration);
    pipeline.batches = options.batches;
    pipeline.method = options.partition;
    pipeline.remat = options.remat;
    pipeline.schedule = options.schedule;
    pipeline.microbatches = options.microbatches;
    pipeline.plan = options.plan;
    pipeline.trainModes = options.hasModes();
    if (!options.dryRun)
      pipeline.output = options.output;
    pipeline.model = modelName();
    pipeline.subMicrobatches = options.subMicrobatches;
    pipeline.cpu = options.cpu;
    pipeline.gpuCode = options.gpuCode;
    pipeline.cudaToolkit = options.cudaToolkit;
    return plansProgram(options) ? success() : takeCapsOfLengths();
  }

  /// Tables by position must hold the longest sample; the caps are those of candidates.
  LogicalResult takeCapsOfLengths() {
    auto longest = longestSample(options.lengths);
    if (!longest)
      return fail(longest.status().message());
    pipeline.tiles = std::max<int64_t>(1, longest->tiles);
    pipeline.tokens = std::max<int64_t>(1, longest->tokens);
    return success();
  }

  std::string timesOfGroups() const {
    return options.calibration.empty() ? "the peaks of device " + options.device
                                       : "the machine measured";
  }

  int dumpPassPipeline() {
    PassManager passes(&context);
    buildCompilePipeline(passes, pipeline, record);
    passes.printAsTextualPipeline(llvm::outs());
    llvm::outs() << "\n";
    return failed(flush("writing the passes")) ? 1 : 0;
  }

  LogicalResult importModel() {
    Progress phase("reading the model");
    ImportOptions import;
    import.weights = options.weights;
    if (!options.linkRoot.empty())
      import.linkFolders = {options.linkRoot};
    FailureOr<OwningOpRef<ModuleOp>> imported = importOnnx(options.model, import, context);
    if (failed(imported))
      return failure();
    module = std::move(*imported);
    return success();
  }

  LogicalResult compile() {
    PassManager passes(&context);
    passes.addInstrumentation(std::make_unique<PhaseProgress>());
    buildCompilePipeline(passes, pipeline, record);
    return passes.run(*module);
  }

  /// One, or one a training mode.
  const std::vector<plan::StagePlan> &plans() const { return record->plans.modes; }
  const cost::CostReport &costs(size_t mode) const { return record->costs[mode]; }

  /// Whether some mode runs the layer with this option.
  bool isChosen(const std::string &name, const std::string &option) const {
    return llvm::any_of(plans(), [&](const plan::StagePlan &planned) {
      const std::vector<planner::Layer> &layers = planned.problem.layers;
      auto at =
          llvm::find_if(layers, [&](const planner::Layer &each) { return each.name == name; });
      return at != layers.end() && planned.plan.remat[at - layers.begin()] == option;
    });
  }

  /// A layer without measured times is no error, but its times are worth less.
  void noticeUnmeasured() {
    std::map<std::string, std::string> chosen, others; // option -> first layer
    size_t chosenCount = 0, otherCount = 0;
    std::set<std::pair<std::string, std::string>> unmeasured; // in some mode
    for (size_t mode = 0; mode < plans().size(); ++mode)
      unmeasured.insert(costs(mode).units.unmeasured.begin(), costs(mode).units.unmeasured.end());
    for (const auto &[layer, option] : unmeasured) {
      bool used = isChosen(layer, option);
      (used ? chosen : others).try_emplace(option, layer);
      ++(used ? chosenCount : otherCount);
    }
    auto notice = [](size_t count, const std::map<std::string, std::string> &first,
                     llvm::StringRef what) {
      if (!count)
        return;
      std::string names;
      for (const auto &[option, layer] : first)
        names += (names.empty() ? "" : ", ") + option + " (" + layer + ", ...)";
      llvm::errs() << "omnibal-compile: notice: --calibration: " << count << " layers " << what
                   << " have no measured times for " << names
                   << "; roofline times, scaled as the measured ones, stand for them. Calibrate a "
                      "program compiled with that --remat as well and give both tables\n";
    };
    notice(chosenCount, chosen, "of the plan");
    if (options.remat == "auto" && !plans().front().problem.cluster.memoryBytes.empty())
      notice(otherCount, others, "compared with it");
  }

  bool isHost() const { return options.target == "host"; }
  std::string modelName() const { return llvm::sys::path::filename(options.model).str(); }

  /// Of the stage's parts, the one that needs most.
  static const rt::Stage &largestEntry(const rt::Program &program, int32_t stage) {
    const rt::Stage *largest = &program.stageOf(stage, 0);
    for (int32_t part = 1; part < program.entries(); ++part)
      if (program.stageOf(stage, part).arenaBytes > largest->arenaBytes)
        largest = &program.stageOf(stage, part);
    return *largest;
  }

  TableFacts tableFacts(size_t mode) const {
    TableFacts facts;
    facts.device = options.calibration.empty() ? costs(mode).device.name : "the machine measured";
    if (!isHost())
      facts.device += " in " + options.dtype;
    facts.assumption = options.batches.empty() ? "a full micro-batch of one sample"
                                               : "the median step of " + options.batches;
    facts.stepPlanned = options.schedule == "per-step";
    facts.caps = {options.tiles, options.tokens};
    const rt::Program &program = record->laidOut.program->program;
    for (int32_t s = 0; s < program.stages; ++s) {
      const rt::Stage &largest = largestEntry(program, s);
      facts.memoryBytes.push_back(largest.arenaBytes);
      facts.beside.push_back(rt::workspaceOf(program, largest));
    }
    facts.degree = program.trainModes[mode].degree;
    if (plans().size() > 1) { // of the mode alone; what the backend takes is the program's
      const rt::TrainMode &train = program.trainModes[mode];
      facts.mode = train.name;
      facts.caps = {train.tilesCap, train.tokensCap};
      for (auto [bytes, stage] : llvm::zip_equal(facts.memoryBytes, plans()[mode].memory))
        bytes = stage.arenaBytes;
      facts.beside.clear();
    }
    if (DenseI64ArrayAttr limits =
            ModuleOp(*module)->getAttrOfType<ClusterAttr>(clusterAttrName).getMemory())
      facts.limitBytes.assign(limits.asArrayRef().begin(), limits.asArrayRef().end());
    return facts;
  }

  /// What concerns all training modes: memory, and the epoch of the batches.
  std::string programText() const {
    if (plans().size() == 1)
      return options.lengthGroups ? predictedEpoch() : "";
    const rt::Program &program = record->laidOut.program->program;
    std::string text = "\nprogram of " + std::to_string(plans().size()) + " training modes:\n";
    for (int32_t s = 0; s < program.stages; ++s) {
      const rt::Stage &stage = largestEntry(program, s);
      auto largest = llvm::max_element(plans(), [&](const auto &a, const auto &b) {
        return a.memory[stage.id].arenaBytes < b.memory[stage.id].arenaBytes;
      });
      const std::vector<rt::WorkspaceUse> beside = rt::workspaceOf(program, stage);
      text += "stage " + std::to_string(stage.id) + ": " + rt::bytesToString(stage.arenaBytes) +
              ", as length group " + program.trainModes[largest - plans().begin()].name + " needs";
      if (!beside.empty())
        text += ", and " + rt::bytesToString(rt::totalOf(beside)) + " that the backend takes (" +
                rt::describe(beside) + ")";
      text += "\n";
    }
    return text + predictedEpoch();
  }

  std::string predictedEpoch() const {
    std::vector<ModeEpoch> modes;
    std::vector<std::string> names;
    for (size_t m = 0; m < plans().size(); ++m) {
      modes.push_back(predictEpoch(costs(m), plans()[m]));
      names.push_back(options.lengthGroups->modes[m].name);
    }
    return epochText(modes, names, options.lengthGroups->epochNs);
  }

  LogicalResult writeText(const std::string &path, const std::string &text) {
    if (path.empty())
      return success();
    rt::Status status = rt::writeFileAtomically(path, text);
    return status ? success() : fail(status.message());
  }

  LogicalResult writeViews(size_t mode) {
    const plan::StagePlan &planned = plans()[mode];
    if (!options.trace.empty() &&
        failed(writeText(fileOfMode(options.trace, mode),
                         planner::traceJson(planned.problem, planned.plan, planned.timeline))))
      return failure();
    if (options.report.empty())
      return success();
    const rt::Program &program = record->laidOut.program->program;
    rt::Result<std::optional<planner::StepSamples>> samples = sampleSteps(options, program);
    if (!samples)
      return fail(samples.status().message());
    std::string title = modelName(), table = tables[mode] + reasons(planned);
    const planner::Link link = costs(mode).partsLink;
    const std::string moves =
        rt::movesText(program, rt::trainModeName(mode), [&](int64_t rounds, int64_t bytes) {
          return cost::nsOfMoves(rounds, bytes, link);
        });
    table += moves.empty() ? "" : "\n" + moves;
    if (plans().size() > 1) {
      title += ", length group " + program.trainModes[mode].name;
      table += programText();
    }
    return writeText(
        fileOfMode(options.report, mode),
        planner::htmlReport({title, table, planned.problem, planned.plan, planned.timeline,
                             planned.search, planner::baselines(planned.problem),
                             *std::move(samples)}));
  }

  /// What limits each stage and what would help, a line each.
  static std::string reasons(const plan::StagePlan &planned) {
    const planner::Plan &plan = planned.plan;
    planner::Problem problem = plan::problemOf(planned);
    planner::PlanReasons why = planner::explainPlan(problem, plan, planned.timeline);
    std::string text;
    for (size_t chunk = 0; chunk + 1 < plan.cuts.size(); ++chunk)
      text += planner::describeChunk(problem, plan, planned.timeline, why, chunk) + "\n";
    std::string resources = planner::describeResources(plan, why);
    return text + resources + (resources.empty() ? "" : "\n");
  }

  LogicalResult writeFiles() {
    const cost::UnitCosts unitCosts = costs(0).units.of(plans().front().plan.remat);
    if (failed(writeText(options.emitStepProblem, record->laidOut.program->program.stepProblem)) ||
        failed(writeText(options.emitBatchCost, batchCostJson(unitCosts))) ||
        (!options.emitChoice.empty() &&
         failed(writeText(options.emitChoice, planner::writeChoice(record->ranks.choice)))))
      return failure();
    for (size_t m = 0; m < plans().size(); ++m)
      if (failed(writeText(fileOfMode(options.emitProblem, m),
                           planner::writeProblem(plans()[m].problem))) ||
          failed(writeViews(m)))
        return failure();
    return success();
  }

  const Options &options;
  MLIRContext context;
  CompileOptions pipeline;
  std::shared_ptr<CompileRecord> record = std::make_shared<CompileRecord>();
  OwningOpRef<ModuleOp> module;
  std::vector<std::string> tables; ///< by training mode
};

} // namespace

int compileModel(const Options &options) { return Driver(options).run(); }

} // namespace omnibal::compile
