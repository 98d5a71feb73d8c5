#include "passes/partition/PlanStages.h"
#include "dialects/omnibal/OmnibalPlanAttrs.h"
#include "mlir/Pass/PassManager.h"
#include "passes/planner/Partition.h"
#include "passes/planner/ScheduleRules.h"
#include "passes/planner/Search.h"
#include "passes/train/Passes.h"
#include <map>

using namespace mlir;

namespace omnibal::partition {
namespace {

/// A copy of the module in form C with every layer's remat set to `remat`.
FailureOr<OwningOpRef<ModuleOp>> materialized(ModuleOp module, StringRef remat) {
  OwningOpRef<ModuleOp> copy(module.clone());
  copy->walk([&](LayerOp layer) {
    layer->setAttr("omnibal.remat", StringAttr::get(module.getContext(), remat));
  });
  PassManager passes(module.getContext());
  passes.addPass(createMaterializeLayers());
  if (failed(passes.run(*copy)))
    return failure();
  return copy;
}

/// Loads whose differences isolate a tile, a token and a squared token; large, because times are
/// rounded up to nanoseconds.
constexpr int64_t probedTiles = 1000, probedTokens = 1000, probedSquares = 1000000;
constexpr Load probes[] = {
    {0, 1, 0}, {probedTiles, 1, 0}, {0, 1 + probedTokens, 0}, {0, 1, probedSquares}};

class StagePlanner {
public:
  StagePlanner(ModuleOp module, const PlanOptions &options)
      : module(module), options(options), load(options.load) {
    if (options.batches)
      load = loadAtCaps(*options.batches, options.load.tiles, options.load.tokens);
  }

  FailureOr<PlannedModule> run() {
    if (failed(checkDevice()) || failed(readProblem()) || failed(chooseCuts()) ||
        failed(chooseSchedule()) || failed(chooseRemat()))
      return failure();
    result.timeline = planner::simulate(result.problem, result.plan);
    for (const planner::RankFigures &rank : planner::simulate(atCaps(), result.plan).ranks)
      result.peakBytesAtCaps.push_back(rank.peakBytes);
    result.costs = unitCosts();
    if (!result.timeline.error.empty())
      return module.emitError("the plan cannot run: ") << result.timeline.error, failure();
    countParameters();
    result.plan.stepNs = result.timeline.stepNs;
    result.plan.ranks = result.timeline.ranks;
    writeAttributes();
    return std::move(result);
  }

private:
  LogicalResult checkDevice() {
    if (options.device.flops.count(options.numbers.compute))
      return success();
    return module.emitError("device `")
           << options.device.name << "` states no peak for " << options.numbers.compute
           << ": choose another (--device) or add it to the description";
  }

  LogicalResult readProblem() {
    auto keep = materialized(module, "keep");
    auto full = materialized(module, "full");
    if (failed(keep) || failed(full))
      return failure();
    auto graph = readCallGraph(**keep);
    auto fullGraph = readCallGraph(**full);
    if (failed(graph) || failed(fullGraph))
      return failure();
    const Numbers &numbers = options.numbers;
    std::vector<LayerFacts> facts = readLayerFacts(**keep, *graph, load, numbers.activation);
    std::vector<LayerFacts> fullFacts =
        readLayerFacts(**full, *fullGraph, load, numbers.activation);
    planner::Problem &problem = result.problem;
    problem.cluster = options.cluster;
    problem.microbatches = options.microbatches;
    problem.schedule = options.schedule;
    for (auto [i, call] : llvm::enumerate(graph->calls)) {
      planner::Layer layer;
      layer.name = call.name;
      layer.kind = call.kind;
      layer.forwardNs = time(facts[i].forward);
      layer.inputGradNs = time(facts[i].inputGrad);
      layer.weightGradNs = time(facts[i].weightGrad);
      layer.paramBytes = facts[i].parameterElements * numbers.parameter +
                         facts[i].trainableElements * numbers.trainable;
      layer.gradBytes = facts[i].trainableElements * numbers.gradient;
      layer.remat.push_back({"keep", facts[i].savedBytes, 0, facts[i].workspaceBytes});
      bool backward = layer.inputGradNs + layer.weightGradNs > 0;
      layer.remat.push_back({"full", fullFacts[i].savedBytes, backward ? layer.forwardNs : 0,
                             fullFacts[i].workspaceBytes});
      problem.layers.push_back(std::move(layer));
    }
    addEdges(*graph, facts);
    for (const Call &call : graph->calls) {
      auto &elements = parameterElements.emplace_back();
      for (const std::string &name : call.parameters) {
        auto parameter = (*keep)->lookupSymbol<ParameterOp>(name);
        elements[name] = cast<RankedTensorType>(parameter.getType()).getNumElements();
      }
    }
    for (const Load &probe : probes)
      probed.push_back(readLayerFacts(**keep, *graph, probe, numbers.activation));
    addLoads();
    int64_t layers = static_cast<int64_t>(problem.layers.size());
    if (options.cluster.stages > layers)
      return module.emitError("infeasible: ")
             << options.cluster.stages << " stages for " << layers << " layers; at most " << layers
             << " stages are possible";
    return success();
  }

  int64_t time(const cost::Work &work) const {
    return cost::rooflineNs(options.device, options.numbers.compute, work);
  }

  /// Of all layers, forward, backward and what the plan so far recomputes.
  UnitCosts unitCosts() const {
    double total[std::size(probes)] = {};
    for (size_t i = 0; i < std::size(probes); ++i)
      for (size_t l = 0; l < probed[i].size(); ++l) {
        const LayerFacts &facts = probed[i][l];
        int64_t forward = time(facts.forward);
        int64_t backward = time(facts.inputGrad) + time(facts.weightGrad);
        bool again = backward > 0 && !result.plan.remat.empty() && result.plan.remat[l] != "keep";
        total[i] += static_cast<double>(forward + backward + (again ? forward : 0));
      }
    return {(total[1] - total[0]) / probedTiles, (total[2] - total[0]) / probedTokens,
            (total[3] - total[0]) / probedSquares};
  }

  /// The factors of the data's typical step.
  void addLoads() {
    if (!options.batches) {
      result.assumption = "a full micro-batch of one sample";
      return;
    }
    for (const GroupLoad &microbatch :
         typicalStep(*options.batches, options.microbatches, unitCosts()))
      result.problem.factors.push_back(
          factorsOf(microbatch, options.load.tiles, options.load.tokens));
    result.assumption = "the median step of " + options.batches->source;
  }

  /// The problem with full micro-batches: what memory is planned for.
  planner::Problem atCaps() const {
    planner::Problem problem = result.problem;
    problem.factors.clear();
    return problem;
  }

  void addEdges(const CallGraph &graph, const std::vector<LayerFacts> &facts) {
    // An activation's gradient flows back where something trains in or upstream of its producer.
    std::vector<bool> trains(graph.calls.size(), false);
    for (auto [i, call] : llvm::enumerate(graph.calls)) {
      trains[i] = facts[i].trainableElements > 0;
      for (int64_t edge : call.inputs)
        trains[i] = trains[i] || trains[graph.edges[edge].producer];
    }
    for (const Edge &edge : graph.edges) {
      int64_t bytes = options.numbers.activation;
      for (const SymbolicDim &dim : edge.shape)
        bytes *= dim.evaluate(load.tiles, load.tokens);
      for (auto [call, input] : edge.consumers)
        result.problem.edges.push_back(
            {edge.producer, call, bytes, trains[edge.producer] ? bytes : 0});
    }
  }

  void countParameters() {
    for (int64_t s = 0; s < options.cluster.stages; ++s) {
      std::map<std::string, int64_t> distinct;
      for (int64_t l = result.plan.cuts[s]; l < result.plan.cuts[s + 1]; ++l)
        distinct.insert(parameterElements[l].begin(), parameterElements[l].end());
      int64_t &total = result.parameterElements.emplace_back(0);
      for (const auto &[name, elements] : distinct)
        total += elements;
    }
  }

  LogicalResult chooseCuts() {
    planner::Plan &plan = result.plan;
    if (!options.planFile.empty()) {
      auto read = planner::readPlan(options.planFile);
      if (!read)
        return module.emitError() << llvm::toString(read.takeError());
      plan = std::move(*read);
      return checkCuts();
    }
    if (options.method == "search")
      return searchCuts();
    if (options.method == "layers")
      plan.cuts = planner::cutsByLayerCount(result.problem);
    else if (options.method == "parameters")
      plan.cuts = planner::cutsByParameters(result.problem);
    else if (options.method == "greedy")
      plan.cuts = planner::cutsByTime(result.problem);
    else
      return module.emitError("unknown partition method `")
             << options.method << "` (known: search, layers, parameters, greedy)";
    return success();
  }

  /// The problem, with the options that `--remat` leaves.
  planner::Problem withOptions(planner::Problem problem) const {
    if (options.remat != "auto") {
      problem.varyRemat = false;
      problem.givenRemat.assign(problem.layers.size(), options.remat == "full" ? "full" : "keep");
    }
    return problem;
  }

  /// Cuts for the loads of the data, recomputation for full micro-batches: if these cuts leave no
  /// room for it, cuts for full micro-batches too.
  LogicalResult searchCuts() {
    planner::Problem problem = withOptions(result.problem), full = withOptions(atCaps());
    planner::SearchResult found = planner::searchPlan(problem, {});
    if (found.plan && !problem.factors.empty()) {
      planner::Plan atFull;
      atFull.cuts = found.plan->cuts;
      if (planner::completePlan(full, atFull).empty())
        found.plan->remat = atFull.remat;
      else
        found = planner::searchPlan(full, {});
    }
    if (!found.plan)
      return module.emitError("infeasible: ") << found.problem;
    result.plan.cuts = found.plan->cuts;
    result.plan.remat = found.plan->remat;
    result.search = found.facts();
    return success();
  }

  LogicalResult checkCuts() {
    const std::vector<int64_t> &cuts = result.plan.cuts;
    int64_t layers = static_cast<int64_t>(result.problem.layers.size());
    if (static_cast<int64_t>(cuts.size()) != options.cluster.stages + 1)
      return module.emitError() << options.planFile << ": `cuts` has " << cuts.size()
                                << " entries, " << options.cluster.stages << " stages need "
                                << options.cluster.stages + 1;
    if (cuts.front() != 0 || cuts.back() != layers)
      return module.emitError() << options.planFile << ": `cuts` must run from 0 to the number of "
                                << "layers, " << layers;
    for (size_t i = 0; i + 1 < cuts.size(); ++i)
      if (cuts[i] >= cuts[i + 1])
        return module.emitError() << options.planFile << ": `cuts`: stage " << i << " is empty";
    if (!result.plan.remat.empty() && static_cast<int64_t>(result.plan.remat.size()) != layers)
      return module.emitError() << options.planFile << ": `remat` has " << result.plan.remat.size()
                                << " entries for " << layers << " layers";
    for (const std::string &name : result.plan.remat)
      if (name != "keep" && name != "full")
        return module.emitError() << options.planFile << ": `remat`: unknown option " << name
                                  << " (known: keep, full)";
    return success();
  }

  LogicalResult chooseSchedule() {
    planner::Plan &plan = result.plan;
    if (plan.schedule.empty())
      plan.schedule = options.schedule;
    plan.chunkRank.clear();
    for (int64_t s = 0; s < options.cluster.stages; ++s)
      plan.chunkRank.push_back(s);
    auto actions =
        planner::scheduleActions(plan.schedule, options.cluster.stages, options.microbatches);
    if (!actions)
      return module.emitError("unknown schedule `") << plan.schedule << "` (known: 1f1b, gpipe)";
    plan.actions = std::move(*actions);
    return success();
  }

  LogicalResult chooseRemat() {
    planner::Plan &plan = result.plan;
    size_t layers = result.problem.layers.size();
    if (!plan.remat.empty())
      return success();
    plan.remat.assign(layers, options.remat == "full" ? "full" : "keep");
    if (options.remat != "auto" || options.cluster.memoryBytes.empty())
      return success();
    plan.remat.clear();
    if (std::string why = planner::completePlan(atCaps(), plan); !why.empty())
      return module.emitError("infeasible: ") << why;
    return success();
  }

  void writeAttributes() {
    Builder builder(module.getContext());
    int64_t index = 0;
    for (LayerOp layer : module.lookupSymbol<func::FuncOp>("main").getOps<LayerOp>()) {
      int64_t chunk = 0;
      while (result.plan.cuts[chunk + 1] <= index)
        ++chunk;
      layer->setAttr("omnibal.chunk", builder.getI64IntegerAttr(chunk));
      const std::string &remat = result.plan.remat[index];
      layer->setAttr("omnibal.remat", builder.getStringAttr(remat));
      layer->setAttr(costAttrName, costOf(result.problem.layers[index], remat));
      ++index;
    }
    const planner::Plan &plan = result.plan;
    module->setAttr(planAttrName, PlanAttr::get(module.getContext(), plan.schedule,
                                                options.cluster.stages, options.microbatches,
                                                options.cluster.dataParallel, plan.chunkRank));
  }

  CostAttr costOf(const planner::Layer &layer, const std::string &remat) {
    int64_t saved = 0;
    for (const planner::RematOption &option : layer.remat)
      if (option.name == remat)
        saved = option.savedBytes;
    return CostAttr::get(module.getContext(), layer.forwardNs, layer.inputGradNs,
                         layer.weightGradNs, saved);
  }

  ModuleOp module;
  const PlanOptions &options;
  Load load;
  std::vector<std::vector<LayerFacts>> probed;                   ///< by probe and layer
  std::vector<std::map<std::string, int64_t>> parameterElements; ///< by layer
  PlannedModule result;
};

} // namespace

FailureOr<PlannedModule> planStages(ModuleOp module, const PlanOptions &options) {
  return StagePlanner(module, options).run();
}

} // namespace omnibal::partition
