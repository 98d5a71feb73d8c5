//===- ExportProgram.cpp -----------------------------------------------------------------===//
#include "passes/export/ExportProgram.h"
#include "dialects/omnibal/analysis/FunctionDigest.h"
#include "dialects/omnibal/ir/BatchValues.h"
#include "dialects/omnibal/ir/RouterLoss.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "passes/common/OffsetAssignment.h"
#include "passes/export/StepProblem.h"
#include "passes/layout/ProgramLayout.h"
#include "passes/schedule/GradientBuckets.h"
#include "runtime/planner/step/StepProblemJson.h"
#include "runtime/program/Names.h"
#include "runtime/program/Workspace.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace omnibal::exporter {
namespace {

/// Plans place blocks at multiples of their alignment.
constexpr int64_t alignDown(int64_t bytes) { return bytes / blockAlignment * blockAlignment; }

class Exporter {
public:
  Exporter(ModuleOp module, const ExportOptions &options)
      : module(module), options(options), kernels(std::make_shared<lower::KernelLibrary>(
                                              module.getContext(), options.target == "cuda")) {}

  FailureOr<ExportedProgram> run() {
    FailureOr<analysis::CallGraph> graph = analysis::readCallGraph(module);
    if (failed(graph))
      return failure();
    parts.graph = std::move(*graph);
    FailureOr<layout::Schedule> schedule = layout::readSchedule(module, parts.graph);
    if (failed(schedule))
      return failure();
    parts.schedule = std::move(*schedule);
    parts.compute = options.compute;
    parts.tilesCap = options.tilesCap;
    parts.tokensCap = roundedTokens();
    // Before any function is rewritten, as the planner saw it.
    for (auto function : module.getOps<func::FuncOp>())
      digests[function.getSymName()] =
          analysis::digestOf(function, analysis::digestKernels(options.target, options.compute));
    // With more micro-batches a pipeline fills without (runtime/planner/step/SplitChoices.h).
    const PlanAttr plan = parts.schedule.plan;
    if (parts.schedule.stepPlanned && options.subMicrobatches &&
        plan.getMicrobatches() < 2 * plan.getStages())
      mayDivide = tilesAreApart(module, parts.graph);
    if (failed(lowerCallees()))
      return failure();

    std::vector<rt::Stage> stages(parts.schedule.plan.getStages());
    for (size_t s = 0; s < stages.size(); ++s)
      stages[s].id = static_cast<int32_t>(s);
    if (llvm::none_of(parts.callees, [](const layout::CalleeFunctions &callee) {
          return llvm::any_of(callee.gradients(), [](int64_t function) { return function >= 0; });
        }))
      return module.emitError("nothing trains: every parameter is frozen or unreached"), failure();
    if (failed(layout::layOutProgram(parts, stages)))
      return failure();
    for (rt::Stage &stage : stages)
      schedule::placeGradientBuckets(stage, options.gradientBucketBytes);
    return assemble(std::move(stages));
  }

private:
  /// Lowers the functions of a layer once, however many layers call them.
  LogicalResult lowerCallees() {
    std::map<std::string, std::set<rt::ActionKind>> runs;
    for (const analysis::Call &call : parts.graph.calls) {
      const std::set<rt::ActionKind> &ofChunk = parts.schedule.runs[call.chunk];
      for (LayerFnOp callee : call.callees())
        runs[callee.getSymName().str()].insert(ofChunk.begin(), ofChunk.end());
    }
    std::map<std::string, layout::CalleeFunctions> done;
    auto lowerOnce = [&](LayerFnOp callee, int64_t chunk) -> FailureOr<layout::CalleeFunctions> {
      std::string name = callee.getSymName().str();
      auto [it, fresh] = done.try_emplace(name);
      if (fresh && failed(lowerCallee(callee, runs.at(name), it->second)))
        return failure();
      return it->second.ofRuns(parts.schedule.runs[chunk]);
    };
    for (analysis::Call &call : parts.graph.calls) {
      auto callee = lowerOnce(call.callee, call.chunk);
      if (failed(callee))
        return failure();
      parts.callees.push_back(*callee);
      std::vector<layout::CalleeFunctions> &variants = parts.variants.emplace_back();
      for (LayerFnOp each : call.variants) {
        auto variant = lowerOnce(each, call.chunk);
        if (failed(variant))
          return failure();
        variants.push_back(*variant);
      }
    }
    return success();
  }

  /// What variants of a chunk call beside what @main calls is for training alone.
  LogicalResult lowerCallee(LayerFnOp callee, const std::set<rt::ActionKind> &runs,
                            layout::CalleeFunctions &out) {
    lower::layOutSavedValues(callee);
    auto lowerOne = [&](llvm::StringRef symbol, int64_t &index) -> LogicalResult {
      auto [it, fresh] = functionIndex.try_emplace(symbol.str(), parts.functions.size());
      index = it->second;
      if (!fresh)
        return success();
      lower::LoweringOptions lowering;
      lowering.target = options.target;
      lowering.compute = options.compute;
      lowering.tilesCap = options.tilesCap;
      lowering.tokensCap = roundedTokens();
      lowering.rowBucket = 1;
      auto lowered =
          lower::lowerFunction(module.lookupSymbol<func::FuncOp>(symbol), *kernels, lowering);
      if (failed(lowered))
        return failure();
      lowered->function.digest = digests.lookup(symbol);
      parts.functions.push_back(std::move(*lowered));
      return success();
    };
    const bool isInMain = llvm::any_of(
        parts.graph.calls, [&](const analysis::Call &call) { return call.callee == callee; });
    if (failed(lowerOne(callee.getForward(), out.forward)) ||
        (isInMain && (failed(lowerOne(callee.getEvaluate(), out.evaluate)) ||
                      failed(lowerOne(callee.getInference(), out.inference)))))
      return failure();
    auto lowerHalf = [&](rt::ActionKind kind, std::optional<StringRef> symbol, int64_t &index) {
      return symbol && runs.count(kind) ? lowerOne(*symbol, index) : success();
    };
    return success(
        succeeded(lowerHalf(rt::ActionKind::Backward, callee.getBackward(), out.backward)) &&
        succeeded(lowerHalf(rt::ActionKind::InputGrad, callee.getInputGrad(), out.inputGrad)) &&
        succeeded(lowerHalf(rt::ActionKind::WeightGrad, callee.getWeightGrad(), out.weightGrad)));
  }

  FailureOr<ExportedProgram> assemble(std::vector<rt::Stage> stages) {
    ExportedProgram result;
    rt::Program &program = result.program;
    program.target = options.target;
    program.compute = options.compute;
    program.cpu = options.target == "cuda" && options.gpuCode == lower::deviceCode
                      ? lower::KernelLibrary::oldestGpu
                      : lower::KernelLibrary::resolveCpu(options.cpu);
    program.model = options.model;
    program.rowBucket = options.rowBucket;
    PlanAttr plan = parts.schedule.plan;
    program.stages = static_cast<int32_t>(plan.getStages());
    program.dataParallel = static_cast<int32_t>(plan.getDataParallel());
    rt::TrainMode &train = program.trainModes[0];
    train.tilesCap = options.tilesCap;
    train.tokensCap = options.tokensCap;
    train.microbatches = static_cast<int32_t>(plan.getMicrobatches());
    train.schedule = plan.getSchedule().str();
    program.stageList = std::move(stages);
    fillInfo(program);

    llvm::StringSet<> seen;
    for (lower::LoweredFunction &lowered : parts.functions) {
      for (lower::ConstantData &data : lowered.constants)
        if (seen.insert(data.name).second)
          result.constants.push_back({data.name, data.dtype, data.shape, std::move(data.bytes)});
      program.functions.push_back(std::move(lowered.function));
    }
    if (parts.schedule.stepPlanned) {
      if (failed(useWholeLimit(program)))
        return failure();
      auto problem = readStepProblem(module, parts, program, mayDivide);
      if (failed(problem))
        return failure();
      train.schedule = perStepSchedule.str();
      program.stepProblem = planner::writeStepProblem(*problem);
    }
    result.kernels = kernels;
    result.options = options;
    return result;
  }

  /// Gives plans of steps what a memory limit leaves beside everything else.
  LogicalResult useWholeLimit(rt::Program &program) {
    auto cluster = module->getAttrOfType<ClusterAttr>(clusterAttrName);
    ArrayRef<int64_t> limits;
    if (cluster && cluster.getMemory())
      limits = cluster.getMemory().asArrayRef();
    for (rt::Stage &stage : program.stageList) {
      if (limits.empty())
        break;
      const int64_t beside = rt::totalOf(rt::workspaceOf(program, stage));
      const int64_t limit = limits[limits.size() == 1 ? 0 : stage.id] - beside;
      if (stage.arenaBytes > limit)
        return module.emitError("infeasible: stage ")
               << stage.id << " needs " << stage.arenaBytes + beside
               << " bytes where its steps are "
               << "planned, " << stage.arenaBytes - limit << " more than its limit; use more "
               << "stages, a larger limit, or --schedule auto";
      rt::Mode &train = stage.modes.at("train");
      train.stepBytes = alignDown(limit) - train.stepOffset;
      stage.arenaBytes = train.stepOffset + train.stepBytes;
    }
    return success();
  }

  void fillInfo(rt::Program &program) {
    rt::ModelInfo &info = program.info;
    if (auto id = module->getAttrOfType<IntegerAttr>("omnibal.image_token_id"))
      info.imageTokenId = id.getInt();
    if (auto count = module->getAttrOfType<IntegerAttr>("omnibal.tokens_per_tile"))
      info.tokensPerTile = count.getInt();
    static const llvm::StringSet<> provided = {"input_ids", "targets", "pixel_values",
                                               routerLossWeight};
    for (const rt::Stage &stage : program.stageList)
      for (const rt::BatchValue &result : stage.modes.at("train").results)
        if (result.name == routerLossOutput.str())
          info.routerLossCoefficient =
              module->getAttrOfType<FloatAttr>(routerLossCoefficientAttrName).getValueAsDouble();
    auto pictures = module->getAttrOfType<DictionaryAttr>("omnibal.pictures");
    if (pictures) {
      auto side = [&](StringRef name) { return pictures.getAs<IntegerAttr>(name).getInt(); };
      info.grid = rt::PictureGrid{side("patch"), side("merge"), side("temporal"), side("window"),
                                  side("grid_side")};
      if (auto name = pictures.getAs<StringAttr>("interpolation"))
        info.grid->interpolation = rt::fromName<rt::Interpolation>(name.getValue()).value();
      if (auto corners = pictures.getAs<BoolAttr>("align_corners"))
        info.grid->alignCorners = corners.getValue();
      info.tileShape = {info.grid->patchesPerUnit(), info.grid->valuesPerPatch()};
    }
    llvm::StringSet<> extra;
    module.walk([&](Operation *op) {
      if (auto value = dyn_cast<BatchValueOp>(op)) {
        if (value.getName() == "pixel_values" && info.tileShape.empty()) {
          auto type = cast<RankedTensorType>(value.getType());
          info.tileShape.assign(type.getShape().begin() + 1, type.getShape().end());
        }
        const bool ofSamples =
            isAxisOfPositions(value.getName()) ||
            (!provided.contains(value.getName()) && !isFactOfRows(value.getName()));
        if (ofSamples && extra.insert(value.getName()).second)
          info.tokenInputs.push_back(value.getName().str());
      }
      if (auto embedding = dyn_cast<EmbeddingOp>(op))
        info.vocabulary = std::max(
            info.vocabulary, cast<RankedTensorType>(embedding.getTable().getType()).getDimSize(0));
    });
    if (auto prefixes = module->getAttrOfType<ArrayAttr>("omnibal.prefix_inputs"))
      for (StringAttr name : prefixes.getAsRange<StringAttr>())
        if (extra.contains(name.getValue()))
          info.prefixInputs.push_back(name.str());
  }

  int64_t roundedTokens() const {
    return lower::roundedTokens(options.tokensCap, options.rowBucket);
  }

  ModuleOp module;
  const ExportOptions &options;
  std::shared_ptr<lower::KernelLibrary> kernels;
  layout::ProgramParts parts;
  std::map<std::string, int64_t> functionIndex;
  llvm::StringMap<std::string> digests; ///< by symbol
  bool mayDivide = false;               ///< micro-batches, by their tiles
};

} // namespace

FailureOr<ExportedProgram> exportProgram(ModuleOp module, const ExportOptions &options) {
  return Exporter(module, options).run();
}

FailureOr<rt::GeneratedCode> compileKernels(const ExportedProgram &exported) {
  if (exported.kernels->empty())
    return rt::GeneratedCode();
  const ExportOptions &options = exported.options;
  const bool cuda = options.target == "cuda";
  if (cuda && options.gpuCode == lower::deviceCode)
    return exported.kernels->compileForGpu(options.cudaToolkit);
  auto bytes = exported.kernels->compileSharedObject(
      options.cpu, cuda ? lower::findKernelConversion(options.gpuCode) : nullptr);
  if (failed(bytes))
    return failure();
  return rt::GeneratedCode{"kernels.so", std::move(*bytes)};
}

} // namespace omnibal::exporter
