//===- CompileDriver.cpp -----------------------------------------------------------------===//
#include "tools/omnibal-compile/CompileDriver.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "dialects/omnibal/ir/RouterLoss.h"
#include "importers/onnx/OnnxImporter.h"
#include "mlir/Pass/PassManager.h"
#include "passes/driver/Pipelines.h"
#include "passes/export/ExportProgram.h"
#include "passes/plan/PlanRemarks.h"
#include "runtime/planner/json/ClusterJson.h"
#include "runtime/planner/json/ProblemJson.h"
#include "runtime/planner/search/PlanReasons.h"
#include "runtime/program/Workspace.h"
#include "runtime/support/AtomicFile.h"
#include "tools/omnibal-compile/BatchLoads.h"
#include "tools/omnibal-compile/Diagnostics.h"
#include "tools/omnibal-compile/Progress.h"
#include "tools/omnibal-compile/StageTable.h"
#include "tools/report/Report.h"
#include "tools/report/Trace.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace omnibal::compile {
namespace {

constexpr int mostFittingRounds = 4;

class Driver {
public:
  explicit Driver(const Options &options) : options(options) {
    DialectRegistry registry;
    registry.insert<OmnibalDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    // An error about the whole module would print all of it.
    context.printOpOnDiagnostic(false);
  }

  int run() {
    DiagnosticPrinter printer(context, "omnibal-compile", options.model);
    if (failed(readCluster()) || failed(readCalibration()) || failed(importModel()) ||
        failed(runFront()) || failed(planAndExport()))
      return 1;
    noticeUnmeasured();
    table = stageTable(planned, tableFacts());
    llvm::outs() << table;
    llvm::outs().flush();
    if (std::error_code error = llvm::outs().error()) {
      llvm::outs().clear_error(); // or its destructor ends the process
      (void)fail("standard output: writing the stage table failed: " + error.message());
      return 1;
    }
    return failed(writeFiles()) ? 1 : 0;
  }

private:
  LogicalResult fail(const llvm::Twine &message) {
    llvm::errs() << "omnibal-compile: error: " << message << "\n";
    return failure();
  }

  LogicalResult readCluster() {
    planner::Cluster &cluster = planOptions.cluster;
    std::string device = options.device;
    if (!options.cluster.empty()) {
      rt::Result<planner::ClusterFile> file = planner::readClusterFile(options.cluster);
      if (!file)
        return fail(file.status().message());
      cluster = file->cluster;
      linkGiven = file->givesLink;
      replicasLinkGiven = file->givesDataParallelLink;
      if (options.stages != 1 && cluster.stages != options.stages)
        return fail(options.cluster + ": `stages` is " + llvm::Twine(cluster.stages) +
                    ", --stages says " + llvm::Twine(options.stages));
      if (options.dataParallel != 1 && cluster.dataParallel != options.dataParallel)
        return fail(options.cluster + ": `data_parallel.size` is " +
                    llvm::Twine(cluster.dataParallel) + ", --data-parallel says " +
                    llvm::Twine(options.dataParallel));
      if (!file->deviceObject.empty()) {
        llvm::json::Value custom = llvm::cantFail(llvm::json::parse(file->deviceObject));
        return useDevice(cost::readDevice(*custom.getAsObject(), options.cluster + ".device"));
      }
      if (!file->deviceName.empty() && !options.deviceGiven)
        device = file->deviceName;
    } else {
      cluster.stages = options.stages;
      cluster.dataParallel = options.dataParallel;
      cluster.link = cluster.dataParallelLink = planner::defaultLink;
    }
    return useDevice(cost::findDevice(device));
  }

  LogicalResult useDevice(llvm::Expected<cost::Device> device) {
    if (!device)
      return fail(llvm::toString(device.takeError()));
    planOptions.device = std::move(*device);
    if (options.memoryLimitBytes)
      planOptions.cluster.memoryBytes = {options.memoryLimitBytes};
    planOptions.method = options.partition;
    if (options.dtype == "bfloat16")
      planOptions.precision = cost::mixedPrecision();
    planOptions.precision.target = options.target;
    planOptions.remat = options.remat;
    planOptions.schedule = options.schedule;
    planOptions.microbatches = options.microbatches;
    planOptions.load = {options.tiles, options.tokens};
    planOptions.planFile = options.plan;
    return readBatches();
  }

  /// Measured links stand in for the default ones; what --cluster says wins.
  LogicalResult readCalibration() {
    if (options.calibration.empty())
      return success();
    cost::Calibration all;
    for (const std::string &file : options.calibration) {
      auto table = cost::readCalibration(file);
      if (!table)
        return fail(llvm::toString(table.takeError()));
      // Another target's kernels have other digests: none of its times would be found.
      if (!table->target.empty() &&
          (table->target != options.target || table->compute != options.dtype))
        return fail(file + ": these are times of a program for target " + table->target + " in " +
                    table->compute + ", but this one is for target " + options.target + " in " +
                    options.dtype + "; calibrate one compiled with --target " + options.target +
                    " --dtype " + options.dtype);
      if (&file == &options.calibration.front())
        all = std::move(*table);
      else
        all.add(*table);
    }
    planner::Cluster &cluster = planOptions.cluster;
    auto use = [](const std::optional<cost::MeasuredLink> &measured, bool given,
                  planner::Link &link) {
      if (measured && !given)
        link = {measured->latencyNs, measured->bytesPerSecond};
    };
    use(all.link, linkGiven, cluster.link);
    use(all.dataParallel, replicasLinkGiven, cluster.dataParallelLink);
    planOptions.calibration = std::make_shared<const cost::Calibration>(std::move(all));
    return success();
  }

  /// A layer without measured times is no error, but its times are worth less.
  void noticeUnmeasured() {
    std::map<std::string, std::string> chosen, others; // option -> first layer
    size_t chosenCount = 0, otherCount = 0;
    for (const auto &[layer, option] : planned.unmeasured) {
      auto at = llvm::find_if(planned.problem.layers,
                              [&](const planner::Layer &l) { return l.name == layer; });
      bool used = at != planned.problem.layers.end() &&
                  planned.plan.remat[at - planned.problem.layers.begin()] == option;
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
    if (options.remat == "auto" && !planOptions.cluster.memoryBytes.empty())
      notice(otherCount, others, "compared with it");
  }

  LogicalResult readBatches() {
    if (options.batches.empty())
      return success();
    auto loads = readBatchLoads(options.batches, planOptions.cluster.dataParallel, options.tiles,
                                options.tokens);
    if (!loads)
      return fail(loads.status().message());
    planOptions.batches = std::make_shared<const cost::EpochLoads>(*std::move(loads));
    return success();
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
    if (options.routerLossCoefficient)
      (*module)->setAttr(
          routerLossCoefficientAttrName,
          FloatAttr::get(Float64Type::get(&context), *options.routerLossCoefficient));
    return success();
  }

  LogicalResult runFront() {
    Progress phase("finding layers");
    PassManager passes(&context);
    FrontOptions front;
    front.tokens = options.tokens;
    front.freezeParts = options.freeze;
    front.freezeMatch = options.freezeMatch;
    buildFrontPipeline(passes, front);
    return passes.run(*module);
  }

  /// Plans and lays out. The plan reserves what it predicts of the arena beyond its own count;
  /// should the exact arena still be above a limit, once more with the difference taken off too.
  LogicalResult planAndExport() {
    Progress phase("planning and lowering");
    limits = planOptions.cluster.memoryBytes;
    if (limits.size() == 1)
      limits.assign(planOptions.cluster.stages, limits.front());
    if (!isHost()) // what every stage needs; the rest depends on the cuts
      planOptions.reserveAlso.assign(limits.size(),
                                     rt::cuda::productWorkspaceBytes + rt::cuda::columnSumBytes);
    for (int round = 1;; ++round) {
      if (failed(planOnce()))
        return failure();
      bool fits = true, canAdapt = options.remat == "auto" && options.plan.empty();
      for (size_t s = 0; s < limits.size(); ++s) {
        const int64_t beside = besideArena(s), need = memoryOf(s) + beside, over = need - limits[s];
        if (over <= 0)
          continue;
        if (!canAdapt || round == mostFittingRounds)
          return fail("infeasible: stage " + llvm::Twine(s) + " needs " + llvm::Twine(need) +
                      " bytes" +
                      (beside ? " (" + std::to_string(beside) + " of them beside its arena)" : "") +
                      ", " + llvm::Twine(over) +
                      " more than its limit; use more stages, --remat auto or a larger limit");
        fits = false;
        planOptions.reserveAlso.resize(limits.size(), 0);
        int64_t &reserved = planOptions.reserveAlso[s];
        reserved = reserved < beside ? beside : reserved + over;
      }
      if (fits)
        return success();
    }
  }

  LogicalResult planOnce() {
    functions = OwningOpRef<ModuleOp>(module->clone());
    FailureOr<plan::PlannedModule> plan = plan::planStages(*functions, planOptions);
    if (failed(plan))
      return failure();
    planned = std::move(*plan);
    return exportPlan();
  }

  LogicalResult exportPlan() {
    PassManager passes(&context);
    buildProgramPipeline(passes);
    if (failed(passes.run(*functions)))
      return failure();
    exporter::ExportOptions exportOptions;
    exportOptions.model = modelName();
    exportOptions.target = options.target;
    exportOptions.compute = options.dtype;
    exportOptions.cpu = options.cpu;
    exportOptions.emulated = options.gpuCode == "emulated";
    exportOptions.cudaToolkit = options.cudaToolkit;
    exportOptions.tilesCap = options.tiles;
    exportOptions.tokensCap = options.tokens;
    exportOptions.rowBucket = isHost() ? 1 : deviceRowBucket;
    auto result = exporter::exportProgram(*functions, exportOptions);
    if (failed(result))
      return failure();
    exported = std::move(*result);
    return success();
  }

  /// So that products, algorithms and recorded work repeat from micro-batch to micro-batch.
  static constexpr int32_t deviceRowBucket = 64;
  bool isHost() const { return options.target == "host"; }
  std::string modelName() const { return llvm::sys::path::filename(options.model).str(); }

  /// Returns what a stage's backend takes outside the arena.
  int64_t besideArena(size_t stage) const {
    return rt::totalOf(rt::workspaceOf(exported.program, exported.program.stageList[stage]));
  }

  /// Returns the bytes of a stage's arena.
  int64_t memoryOf(size_t stage) const { return exported.program.stageList[stage].arenaBytes; }

  TableFacts tableFacts() const {
    TableFacts facts;
    facts.device = planOptions.calibration ? "the machine measured" : planOptions.device.name;
    if (!isHost())
      facts.device += " in " + planOptions.precision.compute;
    facts.caps = planOptions.load;
    for (int64_t s = 0; s < planOptions.cluster.stages; ++s) {
      facts.memoryBytes.push_back(memoryOf(s));
      facts.beside.push_back(rt::workspaceOf(exported.program, exported.program.stageList[s]));
    }
    facts.limitBytes = limits;
    return facts;
  }

  LogicalResult writeText(const std::string &path, const std::string &text) {
    if (path.empty())
      return success();
    rt::Status status = rt::writeFileAtomically(path, text);
    return status ? success() : fail(status.message());
  }

  LogicalResult writeViews() {
    const planner::Problem &problem = planned.problem;
    if (!options.trace.empty() &&
        failed(
            writeText(options.trace, planner::traceJson(problem, planned.plan, planned.timeline))))
      return failure();
    if (options.report.empty())
      return success();
    return writeText(
        options.report,
        planner::htmlReport({modelName(), table + reasons(), problem, planned.plan,
                             planned.timeline, planned.search, planner::baselines(problem)}));
  }

  /// What limits each stage and what would help, a line each.
  std::string reasons() const {
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
    if (failed(writeText(options.emitProblem, planner::writeProblem(planned.problem))) ||
        failed(writeText(options.emitBatchCost, batchCostJson(planned.costs))) ||
        failed(writeViews()))
      return failure();
    if (options.dryRun)
      return success();
    FailureOr<rt::GeneratedCode> kernels = exporter::compileKernels(exported);
    if (failed(kernels))
      return failure();
    rt::Status status =
        rt::writeProgram(exported.program, std::move(exported.constants), *kernels, options.output);
    return status ? success() : fail(status.message());
  }

  const Options &options;
  MLIRContext context;
  plan::PlanOptions planOptions;
  bool linkGiven = false, replicasLinkGiven = false; ///< by --cluster
  OwningOpRef<ModuleOp> module, functions;
  plan::PlannedModule planned;
  std::vector<int64_t> limits; ///< by stage; empty: none
  exporter::ExportedProgram exported;
  std::string table;
};

} // namespace

int compileModel(const Options &options) { return Driver(options).run(); }

} // namespace omnibal::compile
