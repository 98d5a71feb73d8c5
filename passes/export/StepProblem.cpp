#include "passes/export/StepProblem.h"
#include "dialects/omnibal/analysis/TileRows.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "passes/common/ActionKinds.h"
#include "passes/common/StepSamples.h"
#include "runtime/planner/step/SplitChoices.h"
#include "runtime/program/Sizes.h"

using namespace mlir;

namespace omnibal::exporter {
namespace {

class StepProblemBuilder {
public:
  StepProblemBuilder(ModuleOp module, const layout::ProgramParts &parts, const rt::Program &program,
                     bool mayDivide)
      : module(module), parts(parts), program(program), mayDivide(mayDivide) {}

  FailureOr<planner::StepProblem> run() {
    problem.stages = program.stages;
    problem.microbatches = program.trainModes[0].microbatches;
    problem.tilesCap = program.trainModes[0].tilesCap;
    problem.tokensCap = program.trainModes[0].tokensCap;
    problem.rowBucket = program.rowBucket;
    auto cluster = module->getAttrOfType<ClusterAttr>(clusterAttrName);
    if (!cluster)
      return module.emitError("the module has no omnibal.cluster"), failure();
    problem.link = {cluster.getLatency(), cluster.getBytesPerS()};
    if (failed(addChunks()))
      return failure();
    addEdges();
    for (const rt::Stage &stage : program.stageList)
      problem.memoryBytes.push_back(stage.modes.at("train").stepBytes);
    // In any order fewer weight gradients wait in memory; in this one sums do not depend on plans.
    problem.ascendingWeightGradients = !cluster.getMemory() || cluster.getMemory().empty();
    addStaticPlan();
    if (mayDivide)
      divideMicrobatches();
    return std::move(problem);
  }

private:
  LogicalResult addChunks() {
    for (size_t c = 0; c < parts.stepBlocks.size(); ++c) {
      planner::StepChunk &chunk = problem.chunks.emplace_back();
      chunk.component = componentOf(static_cast<int64_t>(c));
      chunk.stage = parts.stageOf(static_cast<int64_t>(c));
      for (size_t v = 0; v < parts.stepBlocks[c].size(); ++v)
        if (failed(addVariant(chunk, c, v)))
          return failure();
    }
    return success();
  }

  LogicalResult addVariant(planner::StepChunk &chunk, size_t number, size_t which) {
    plan::ActionTerms times;
    auto actionNs = module->getAttrOfType<IntegerAttr>(actionNsAttrName);
    times.fill({actionNs ? static_cast<double>(actionNs.getInt()) : 0.0, 0, 0, 0});
    for (const analysis::Call &call : parts.graph.calls)
      if (call.chunk == static_cast<int64_t>(number) && failed(addTimes(call, which, times)))
        return failure();
    planner::StepVariant &variant = chunk.variants.emplace_back();
    variant.name = std::to_string(which);
    for (size_t kind = 0; kind < times.size(); ++kind)
      variant.times[kind] =
          plan::timeModelOf(times[kind], chunk.component == planner::ChunkComponent::Vision);
    variant.blocks = parts.stepBlocks[number][which];
    return success();
  }

  LogicalResult addTimes(const analysis::Call &call, size_t variant, plan::ActionTerms &sums) {
    auto remat = call.op->getAttrOfType<StringAttr>(rematAttrName);
    if (auto options = call.op->getAttrOfType<ArrayAttr>(rematVariantsAttrName))
      remat = cast<StringAttr>(options[variant]);
    auto terms = plan::timeTermsOf(call.op, remat ? remat.getValue() : "keep");
    if (!terms)
      return call.op->emitOpError("has no `")
             << timeModelsAttrName << "` for what it recomputes; plans of single steps need "
             << "omnibal-annotate-costs with time-models";
    for (size_t kind = 0; kind < terms->size(); ++kind)
      for (size_t i = 0; i < plan::termsOfTime; ++i)
        sums[kind][i] += (*terms)[kind][i];
    return success();
  }

  /// A chunk of vision runs for tiles alone, and not at all without: nothing in it depends on N.
  planner::ChunkComponent componentOf(int64_t chunk) const {
    bool vision = true, language = true;
    for (const analysis::Call &call : parts.graph.calls)
      if (call.chunk == chunk) {
        const bool ofTiles = call.kind == "vision" || call.kind == "projector";
        vision &= ofTiles;
        language &= !ofTiles;
      }
    for (const std::vector<planner::Block> &blocks : parts.stepBlocks[chunk])
      for (const planner::Block &block : blocks)
        vision &= block.bytes.token == 0;
    return vision     ? planner::ChunkComponent::Vision
           : language ? planner::ChunkComponent::Language
                      : planner::ChunkComponent::Mixed;
  }

  void addEdges() {
    std::vector<int64_t> apart; // each chunk as if it had a stage of its own
    for (size_t c = 0; c < parts.stepBlocks.size(); ++c)
      apart.push_back(static_cast<int64_t>(c));
    std::map<std::pair<int64_t, int64_t>, planner::StepEdge> edges;
    for (const schedule::Message &message :
         schedule::collectMessages(schedule::sharedValues(parts.graph), apart, true)) {
      auto [from, to] = message.gradient ? std::pair(message.toChunk, message.fromChunk)
                                         : std::pair(message.fromChunk, message.toChunk);
      planner::StepEdge &edge = edges[{from, to}];
      edge.from = from;
      edge.to = to;
      for (int64_t number : message.edges) {
        const rt::Extent size =
            layout::stepBytes(parts.dtypeOf(parts.graph.edges[number]),
                              lower::toExtents(parts.graph.edges[number].shape), parts.caps());
        planner::SizeModel &bytes = message.gradient ? edge.gradBytes : edge.bytes;
        bytes.constant += size.constant;
        bytes.tile += size.perTile;
        bytes.token += size.perToken;
      }
    }
    for (auto &[ends, edge] : edges)
      problem.edges.push_back(edge);
  }

  void addStaticPlan() {
    for (size_t c = 0; c < problem.chunks.size(); ++c) {
      const std::vector<int64_t> &planned = parts.schedule.plannedVariant;
      problem.fixed.variants.emplace_back(problem.microbatches, planned.empty() ? 0 : planned[c]);
    }
    for (const rt::Stage &stage : program.stageList) {
      const rt::Mode &mode = stage.modes.at("train");
      std::vector<planner::StepAction> &list = problem.fixed.actions.emplace_back();
      for (const rt::Action &action : mode.actions)
        if (rt::isCompute(action.kind))
          list.push_back({kindAs<planner::ActionKind>(action.kind), action.microbatch, 0,
                          mode.chunks[action.index].id});
    }
  }

  /// Sub-micro-batches have so many tiles at least that nine tenths of their time depend on them.
  void divideMicrobatches() {
    int64_t least = 0;
    for (const planner::StepChunk &chunk : problem.chunks)
      if (chunk.component == planner::ChunkComponent::Vision)
        least = std::max(least, planner::efficientTiles(chunk.variants.front(), problem.tilesCap));
    if (least == 0 || least > problem.tilesCap / 2)
      return;
    problem.mostParts = planner::mostSubMicrobatches;
    problem.leastTiles = least;
  }

  ModuleOp module;
  const layout::ProgramParts &parts;
  const rt::Program &program;
  const bool mayDivide;
  planner::StepProblem problem;
};

} // namespace

FailureOr<planner::StepProblem> readStepProblem(ModuleOp module, const layout::ProgramParts &parts,
                                                const rt::Program &program, bool mayDivide) {
  return StepProblemBuilder(module, parts, program, mayDivide).run();
}

bool tilesAreApart(ModuleOp module, const analysis::CallGraph &graph) {
  auto isOfTiles = [](const analysis::Call &call) {
    return call.kind == "vision" || call.kind == "projector";
  };
  for (const analysis::Call &call : graph.calls) {
    if (!isOfTiles(call))
      continue;
    bool isApart = true;
    for (LayerFnOp callee : call.callees())
      isApart &= analysis::computesTileByTile(
          module.lookupSymbol<func::FuncOp>(callee.getForward()).getBody().front());
    for (int64_t edge : call.outputs)
      isApart &= rt::bytesOfTile(rt::DType::F32, lower::toExtents(graph.edges[edge].shape)) > 0;
    if (!isApart) {
      CallLayerOp(call.op).emitRemark("steps run whole micro-batches: the layer does not compute "
                                      "each tile by itself");
      return false;
    }
  }
  return true;
}

} // namespace omnibal::exporter
