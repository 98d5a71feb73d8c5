#include "passes/plan/StepLayers.h"
#include "dialects/omnibal/analysis/LayerGraph.h"
#include "dialects/omnibal/analysis/TileRows.h"
#include "dialects/pipeline/OmnibalPlanAttrs.h"
#include "passes/plan/StepVariants.h"
#include "runtime/planner/step/SplitChoices.h"

using namespace mlir;

namespace omnibal::plan {
namespace {

/// Another layout has to be better by so much: what both are worth is known to about as much.
constexpr double leastGain = 0.01;

class StepLayersReader {
public:
  StepLayersReader(ModuleOp module, const planner::Problem &problem, const StepSamples &samples)
      : module(module), problem(problem), samples(samples) {}

  std::optional<planner::StepLayers> run() {
    FailureOr<LayerGraph> graph = LayerGraph::get(module, "omnibal-search-plan"); // was read before
    if (failed(graph))
      return std::nullopt;
    const layout::StepVariants variants = variantsOfAll();
    planner::StepLayers result;
    if (auto ns = module->getAttrOfType<IntegerAttr>(actionNsAttrName))
      result.actionNs = planner::Decimal::of(ns.getInt(), 0);
    for (auto [index, op] : llvm::enumerate(graph->layers)) {
      std::optional<planner::StepLayer> layer = read(
          op, problem.layers[index], variants[index],
          result.layers.empty() ? planner::ChunkComponent::Vision : result.layers.back().component);
      if (!layer)
        return std::nullopt;
      result.layers.push_back(std::move(*layer));
    }
    for (const planner::Edge &edge : problem.edges) {
      const bool ofVision = result.layers[edge.from].component == planner::ChunkComponent::Vision;
      result.edges.push_back(
          {edge.from, edge.to, shared(edge.bytes, ofVision), shared(edge.gradBytes, ofVision)});
    }
    return result;
  }

private:
  /// One list of variants for all layers: a chunk of any of them then has the same ones.
  layout::StepVariants variantsOfAll() const {
    if (problem.varyRemat && !problem.cluster.memoryBytes.empty()) {
      planner::Plan one;
      one.cuts = {0, static_cast<int64_t>(problem.layers.size())};
      for (const planner::Layer &layer : problem.layers)
        one.remat.push_back(layer.remat.front().name);
      return chooseStepVariants(problem, one);
    }
    layout::StepVariants own(problem.layers.size());
    for (size_t l = 0; l < own.size(); ++l)
      own[l] = {problem.varyRemat ? problem.layers[l].remat.front().name : problem.givenRemat[l]};
    return own;
  }

  /// Vision comes first: behind another layer a layer counts as one of language.
  std::optional<planner::StepLayer> read(LayerOp op, const planner::Layer &facts,
                                         const std::vector<std::string> &variants,
                                         planner::ChunkComponent before) {
    const bool ofVision =
        before == planner::ChunkComponent::Vision &&
        (op.getKind() == LayerKind::Vision || op.getKind() == LayerKind::Projector);
    planner::StepLayer layer;
    layer.component =
        ofVision ? planner::ChunkComponent::Vision : planner::ChunkComponent::Language;
    layer.residentBytes = planner::residentBytes(problem.cluster, facts);
    for (const std::string &name : variants) {
      const planner::RematOption *option = facts.option(name);
      std::optional<ActionTerms> terms = timeTermsOf(op, name);
      if (!option || !terms)
        return std::nullopt;
      planner::StepVariant &variant = layer.variants.emplace_back();
      variant.name = std::to_string(layer.variants.size() - 1);
      for (size_t kind = 0; kind < terms->size(); ++kind)
        variant.times[kind] = timeModelOf((*terms)[kind], ofVision);
      variant.blocks.push_back({shared(option->savedBytes, ofVision), planner::BlockBegin::Forward,
                                planner::BlockEnd::InputGrad});
      variant.blocks.push_back({shared(option->heldWhileSplit(), ofVision),
                                planner::BlockBegin::InputGrad, planner::BlockEnd::WeightGrad});
      layer.workspaceBytes = std::max(layer.workspaceBytes, option->workspaceBytes);
    }
    return layer;
  }

  /// Bytes at the caps as bytes a tile, or a token.
  planner::SizeModel shared(int64_t bytes, bool ofVision) const {
    const int64_t cap = std::max<int64_t>(1, ofVision ? samples.tilesCap : samples.tokensCap);
    const int64_t each = bytes / cap + (bytes % cap != 0);
    return ofVision ? planner::SizeModel{0, each, 0} : planner::SizeModel{0, 0, each};
  }

  ModuleOp module;
  const planner::Problem &problem;
  const StepSamples &samples;
};

bool tilesAreApart(ModuleOp module) {
  return !module
              .walk([](LayerOp op) {
                const bool ofTiles =
                    op.getKind() == LayerKind::Vision || op.getKind() == LayerKind::Projector;
                return ofTiles && !analysis::computesTileByTile(op.getBody().front())
                           ? WalkResult::interrupt()
                           : WalkResult::advance();
              })
              .wasInterrupted();
}

/// As in the step problem of the program, but from the times of single layers.
void divideMicrobatches(const planner::StepLayers &layers, planner::StepProblem &frame) {
  int64_t least = 0;
  for (const planner::StepLayer &layer : layers.layers)
    if (layer.component == planner::ChunkComponent::Vision)
      least = std::max(least, planner::efficientTiles(layer.variants.front(), frame.tilesCap));
  if (least == 0 || least > frame.tilesCap / 2)
    return;
  frame.mostParts = planner::mostSubMicrobatches;
  frame.leastTiles = least;
}

} // namespace

std::optional<planner::ChunkLayout> chooseStepLayout(ModuleOp module,
                                                     const planner::Problem &problem,
                                                     const planner::Plan &given,
                                                     const StepSamples &samples, bool mayDivide) {
  std::optional<planner::StepLayers> layers = StepLayersReader(module, problem, samples).run();
  if (!layers)
    return std::nullopt;
  planner::StepProblem frame;
  frame.stages = problem.cluster.stages;
  frame.microbatches = problem.microbatches;
  frame.tilesCap = samples.tilesCap;
  frame.tokensCap = samples.tokensCap;
  frame.link = problem.cluster.link;
  frame.memoryBytes = problem.cluster.memoryBytes;
  frame.ascendingWeightGradients = frame.memoryBytes.empty();
  if (mayDivide && tilesAreApart(module))
    divideMicrobatches(*layers, frame);
  std::optional<planner::LayoutChoice> choice =
      planner::chooseLayout(*layers, frame, samples.steps);
  if (!choice)
    return std::nullopt;
  const int64_t now = planner::sampleNsOf(*layers, {"as given", given.cuts, given.chunkStage},
                                          frame, samples.steps);
  if (static_cast<double>(choice->sampleNs) > (1 - leastGain) * static_cast<double>(now))
    return std::nullopt;
  return std::move(choice->layout);
}

} // namespace omnibal::plan
