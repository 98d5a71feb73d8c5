//===- ExportProgram.cpp -----------------------------------------------------------------===//
#include "passes/export/ExportProgram.h"
#include "dialects/omnibal/ir/BatchValues.h"
#include "dialects/omnibal/ir/Incremental.h"
#include "dialects/omnibal/ir/RouterLoss.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "passes/common/AdapterAttributes.h"
#include "passes/common/OffsetAssignment.h"
#include "passes/common/OptimizerAttribute.h"
#include "passes/common/ProblemAttributes.h"
#include "passes/common/TrainModes.h"
#include "passes/export/LowerCallees.h"
#include "passes/export/MergeFunctions.h"
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

class Exporter {
public:
  Exporter(ModuleOp module, const ExportOptions &options)
      : module(module), options(options), kernels(std::make_shared<lower::KernelLibrary>(
                                              module.getContext(), options.target == "cuda")) {}

  FailureOr<ExportedProgram> run() {
    if (failed(readModes()))
      return failure();
    if (llvm::none_of(modes.front().callees, [](const layout::CalleeFunctions &callee) {
          return llvm::any_of(callee.gradients(), [](int64_t function) { return function >= 0; });
        }))
      return module.emitError("nothing trains: every parameter is frozen or unreached"), failure();
    FailureOr<std::vector<rt::Stage>> stages = layOutParts();
    if (failed(stages))
      return failure();
    return assemble(std::move(*stages));
  }

private:
  /// Where parts differ, each lays out the stages for itself, and the list has a stage's parts one
  /// after the other.
  FailureOr<std::vector<rt::Stage>> layOutParts() {
    const int64_t parts = partsApart();
    std::vector<rt::Stage> list(plan().getStages() * parts);
    for (int64_t part = 0; part < parts; ++part) {
      std::vector<rt::Stage> stages(plan().getStages());
      for (auto [s, stage] : llvm::enumerate(stages)) {
        stage.id = static_cast<int32_t>(s);
        stage.part = static_cast<int32_t>(part);
      }
      for (layout::ProgramParts &mode : modes) {
        mode.part = part;
        if (const size_t own = mode.calleesOfParts.size(); own > 0)
          mode.callees = mode.calleesOfParts[part % own];
      }
      if (failed(layout::layOutProgram(modes, stages)))
        return failure();
      for (auto [s, stage] : llvm::enumerate(stages)) {
        schedule::placeGradientBuckets(stage, options.gradientBucketBytes);
        list[s * parts + part] = std::move(stage);
      }
    }
    return list;
  }

  /// How many lists of stages there are: of a stage's parts, or the ranks of the largest context
  /// group.
  int64_t partsApart() const {
    size_t parts = 1;
    for (const layout::ProgramParts &mode : modes)
      parts = std::max(parts, mode.calleesOfParts.size());
    return static_cast<int64_t>(parts);
  }

  PlanAttr plan() const { return modes.front().schedule.plan; }
  bool isStepPlanned() const { return modes.front().schedule.stepPlanned; }

  LogicalResult readModes() {
    FailureOr<SmallVector<ModuleOp>> found = trainModesOf(module);
    if (failed(found))
      return failure();
    const bool several = !found->empty();
    if (!several)
      found->push_back(module);
    for (auto [number, mode] : llvm::enumerate(*found)) {
      ExportOptions ofMode = options;
      rt::TrainMode train;
      if (TrainModeAttr attribute = trainModeOf(mode)) {
        ofMode.tilesCap = attribute.getTiles();
        ofMode.tokensCap = attribute.getTokens();
        train.name = attribute.getName();
        train.degree = static_cast<int32_t>(attribute.getDegree());
      }
      train.tilesCap = ofMode.tilesCap;
      train.tokensCap = ofMode.tokensCap;
      CalleeLowering lowering(mode, ofMode, *kernels, number, number + 1 == found->size());
      if (failed(lowering.read()))
        return failure();
      const layout::Schedule &schedule = lowering.parts.schedule;
      train.microbatches = static_cast<int32_t>(schedule.plan.getMicrobatches());
      train.schedule = schedule.plan.getSchedule().str();
      if (several && failed(checkMode(mode, lowering.parts)))
        return failure();
      // With more micro-batches a pipeline fills without (runtime/planner/step/SplitChoices.h).
      if (schedule.stepPlanned && options.subMicrobatches &&
          train.microbatches < 2 * schedule.plan.getStages())
        mayDivide = tilesAreApart(mode, lowering.parts.graph);
      if (failed(lowering.lower()))
        return failure();
      modes.push_back(std::move(lowering.parts));
      trainModes.push_back(std::move(train));
    }
    return success();
  }

  /// What all training modes of a program share.
  LogicalResult checkMode(ModuleOp mode, const layout::ProgramParts &parts) {
    if (parts.schedule.stepPlanned)
      return mode.emitError(modePrefix(mode))
             << "plans of single steps are for programs with one training mode";
    if (modes.empty())
      return success();
    const PlanAttr first = plan(), own = parts.schedule.plan;
    auto chunksOf = [](const analysis::CallGraph &each) {
      return llvm::map_to_vector(each.calls, [](const analysis::Call &call) { return call.chunk; });
    };
    if (own.getStages() != first.getStages() || own.getDataParallel() != first.getDataParallel() ||
        own.getChunkStages() != first.getChunkStages() ||
        chunksOf(parts.graph) != chunksOf(modes.front().graph))
      return mode.emitError(modePrefix(mode))
             << "`omnibal.plan` and the chunks of its layers are not those of "
             << trainModes.front().name << "; all training modes have the same cuts";
    return success();
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
    program.stages = static_cast<int32_t>(plan().getStages());
    program.dataParallel = static_cast<int32_t>(plan().getDataParallel());
    static_assert(mostParts == rt::mostParts);
    if (llvm::all_of(trainModes, [](const rt::TrainMode &mode) { return mode.degree == 1; }))
      program.modelParallel = static_cast<int32_t>(plan().getParts());
    program.zero = static_cast<int32_t>(plan().getZero());
    if (auto cluster = module->getAttrOfType<ClusterAttr>(clusterAttrName))
      program.rankOrder = omnibal::plan::rankOrderOf(cluster);
    program.optimizer = optimizerOf(module);
    program.averages = keepsAverages(module);
    program.trainModes = trainModes;
    program.stageList = std::move(stages);
    fillInfo(program);
    FailureOr<rt::Adapters> adapters = getAdapters(module);
    if (failed(adapters))
      return failure();
    program.adapters = *std::move(adapters);
    takeFunctions(result);
    if (isStepPlanned()) {
      if (failed(useWholeLimit(program)))
        return failure();
      auto problem = readStepProblem(module, modes.front(), program, mayDivide);
      if (failed(problem))
        return failure();
      program.trainModes.front().schedule = perStepSchedule.str();
      program.stepProblem = planner::writeStepProblem(*problem);
    }
    result.kernels = kernels;
    result.options = options;
    return result;
  }

  /// Puts the modes' functions into one list, and their numbers there into the modes' calls.
  void takeFunctions(ExportedProgram &result) {
    llvm::StringSet<> seen;
    FunctionList functions;
    for (layout::ProgramParts &parts : modes) {
      std::vector<rt::Function> own;
      for (lower::LoweredFunction &lowered : parts.functions) {
        for (lower::ConstantData &data : lowered.constants)
          if (seen.insert(data.name).second)
            result.constants.push_back({data.name, data.dtype, data.shape, std::move(data.bytes)});
        own.push_back(std::move(lowered.function));
      }
      const std::vector<int32_t> numbers = functions.add(std::move(own), parts.trainMode);
      for (rt::Stage &stage : result.program.stageList)
        for (auto &[name, mode] : stage.modes)
          if (rt::trainModeNumber(name).value_or(modes.size() - 1) == parts.trainMode)
            useNumbers(mode, numbers);
    }
    result.program.functions = functions.take();
  }

  static void useNumbers(rt::Mode &mode, const std::vector<int32_t> &numbers) {
    for (rt::Chunk &chunk : mode.chunks)
      for (std::vector<rt::LayerCall> *list :
           {&chunk.forward, &chunk.backward, &chunk.inputGrad, &chunk.weightGrad})
        for (rt::LayerCall &call : *list)
          call.function = numbers[call.function];
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

  /// The rows of the largest table that the layer looks tokens up in, of which a part may have
  /// some.
  static int64_t wordsOf(const analysis::Call &call) {
    int64_t words = 0;
    auto mode = CallLayerOp(call.op)->getParentOfType<ModuleOp>();
    auto forward = mode.lookupSymbol<func::FuncOp>(LayerFnOp(call.callee).getForward());
    forward.walk([&](EmbeddingOp embedding) {
      Value table = embedding.getTable();
      auto type = cast<RankedTensorType>(table.getType());
      auto argument = dyn_cast<BlockArgument>(table);
      if (argument && forward.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                           "omnibal.role") == "parameter") {
        auto index =
            forward.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), "omnibal.index");
        auto parameter = mode.lookupSymbol<ParameterOp>(call.parameters[index.getInt()]);
        type = cast<RankedTensorType>(parameter.getType());
      }
      words = std::max(words, type.getDimSize(0));
    });
    return words;
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
    if (auto beta = module->getAttrOfType<FloatAttr>(preferenceBetaAttrName))
      info.preferenceBeta = beta.getValueAsDouble();
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
    });
    if (auto positions = module->getAttrOfType<IntegerAttr>("omnibal.positions"))
      info.positions = positions.getInt();
    for (const analysis::Call &call : modes.front().graph.calls)
      info.vocabulary = std::max(info.vocabulary, wordsOf(call));
    info.incremental = module->hasAttr(incrementalAttrName);
    if (auto prefixes = module->getAttrOfType<ArrayAttr>("omnibal.prefix_inputs"))
      for (StringAttr name : prefixes.getAsRange<StringAttr>())
        if (extra.contains(name.getValue()))
          info.prefixInputs.push_back(name.str());
  }

  ModuleOp module;
  const ExportOptions &options;
  std::shared_ptr<lower::KernelLibrary> kernels;
  std::vector<layout::ProgramParts> modes; ///< the training modes, by number
  std::vector<rt::TrainMode> trainModes;
  bool mayDivide = false; ///< micro-batches, by their tiles
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
