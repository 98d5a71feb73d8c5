//===- ProblemAttributes.cpp ----------------------------------------------------------------===//
#include "passes/common/ProblemAttributes.h"
#include "dialects/omnibal/analysis/LayerGraph.h"
#include "dialects/omnibal/ir/OmnibalOps.h"
#include "mlir/IR/Builders.h"
#include "passes/common/PlanAttributes.h"
#include "runtime/program/Names.h"
#include "llvm/Support/MathExtras.h"
#include <limits>
#include <set>

using namespace mlir;

namespace omnibal::plan {
namespace {

constexpr int loadDigits = 4; ///< of 1 / LoadAttr::unit

class ProblemReader {
public:
  ProblemReader(ModuleOp module, StringRef pass) : module(module), pass(pass) {}

  FailureOr<planner::Problem> run() {
    auto found = LayerGraph::get(module, pass);
    if (failed(found) || failed(readCluster()) || failed(readLoads()))
      return failure();
    graph = std::move(*found);
    for (auto [index, layer] : llvm::enumerate(graph.layers))
      if (failed(readLayer(layer, static_cast<int64_t>(index))))
        return failure();
    return std::move(problem);
  }

private:
  LogicalResult readCluster() {
    auto cluster = plan::readCluster(module, pass);
    if (failed(cluster))
      return failure();
    problem.cluster = std::move(*cluster);
    return success();
  }

  LogicalResult readLoads() {
    auto loads = module->getAttrOfType<ArrayAttr>(loadsAttrName);
    for (Attribute each : loads ? loads.getValue() : ArrayRef<Attribute>()) {
      auto load = dyn_cast<LoadAttr>(each);
      if (!load)
        return module.emitError() << pass << ": omnibal.loads holds " << each
                                  << "; it must hold one #plan.load a micro-batch";
      planner::LoadFactors factors;
      for (NamedAttribute factor : load.getFactors())
        factors[factor.getName().str()] =
            planner::Decimal::of(cast<IntegerAttr>(factor.getValue()).getInt(), loadDigits);
      problem.factors.push_back(std::move(factors));
    }
    return success();
  }

  LogicalResult readLayer(LayerOp op, int64_t index) {
    auto cost = op->getAttrOfType<CostAttr>(costAttrName);
    if (!cost)
      return op.emitOpError() << "has no omnibal.cost; run omnibal-annotate-costs before " << pass;
    planner::Layer layer;
    layer.name = op.getName().str();
    layer.kind = stringifyLayerKind(op.getKind()).str();
    layer.forwardNs = cost.getForward();
    layer.inputGradNs = cost.getInputGrad();
    layer.weightGradNs = cost.getWeightGrad();
    for (Attribute each : cost.getOptions()) {
      auto option = cast<RematOptionAttr>(each);
      layer.remat.push_back({option.getName().str(), option.getSaved(), option.getRecompute(),
                             option.getWorkspace(),
                             option.getSplit() ? option.getSplit().getInt() : -1});
    }
    for (unsigned i = 0, end = op.getParameters().size(); i < end; ++i) {
      ParameterOp parameter = graph.getParameter(op, i);
      auto bytes = parameter->getAttrOfType<ParameterCostAttr>(costAttrName);
      if (!bytes)
        return parameter.emitOpError()
               << "has no omnibal.cost; run omnibal-annotate-costs before " << pass;
      if (!seen.insert(parameter).second)
        continue;
      addTo(layer.paramBytes, bytes.getResident());
      addTo(layer.gradBytes, bytes.getReduced());
      if (problem.cluster.zero > 0) {
        addTo(layer.stateBytes, bytes.getState());
        addTo(layer.updateBytes, bytes.getUpdated());
      }
    }
    problem.layers.push_back(std::move(layer));
    addEdges(op, index);
    for (auto [output, value] : llvm::enumerate(op.getOutputs()))
      producer[value] = {index, cost.getOutputs()[output], cost.getGradients()[output]};
    return success();
  }

  /// A sum that leaves int64 stays at its end, where planner::tooLarge sees it.
  static void addTo(int64_t &sum, int64_t bytes) {
    if (llvm::AddOverflow(sum, bytes, sum))
      sum = std::numeric_limits<int64_t>::max();
  }

  /// One a tensor that the layer reads, however often it reads it.
  void addEdges(LayerOp op, int64_t index) {
    llvm::DenseSet<Value> read;
    for (Value input : op.getInputs())
      if (read.insert(input).second)
        if (auto from = producer.find(input); from != producer.end())
          problem.edges.push_back(
              {from->second.layer, index, from->second.bytes, from->second.gradient});
  }

  struct Output {
    int64_t layer = 0, bytes = 0, gradient = 0;
  };
  ModuleOp module;
  StringRef pass;
  LayerGraph graph;
  planner::Problem problem;
  llvm::DenseMap<Value, Output> producer;
  llvm::DenseSet<Operation *> seen; ///< parameters
};

} // namespace

rt::RankOrder rankOrderOf(ClusterAttr cluster) {
  return *rt::fromName<rt::RankOrder>(stringifyRankOrder(cluster.getRankOrder()));
}

void writeCluster(ModuleOp module, const planner::Cluster &cluster) {
  Builder builder(module.getContext());
  DenseI64ArrayAttr memory;
  if (!cluster.memoryBytes.empty())
    memory = builder.getDenseI64ArrayAttr(cluster.memoryBytes);
  module->setAttr(clusterAttrName,
                  ClusterAttr::get(module.getContext(), cluster.stages, memory,
                                   cluster.link.latencyNs, cluster.link.bytesPerSecond,
                                   cluster.dataParallel, cluster.dataParallelLink.latencyNs,
                                   cluster.dataParallelLink.bytesPerSecond, cluster.zero,
                                   cluster.parts,
                                   *symbolizeRankOrder(rt::nameOf(cluster.rankOrder))));
}

FailureOr<planner::Cluster> readCluster(ModuleOp module, StringRef pass) {
  auto cluster = module->getAttrOfType<ClusterAttr>(clusterAttrName);
  if (!cluster)
    return module.emitError() << pass << ": the module has no omnibal.cluster";
  planner::Cluster to;
  to.stages = cluster.getStages();
  if (DenseI64ArrayAttr memory = cluster.getMemory())
    to.memoryBytes.assign(memory.asArrayRef().begin(), memory.asArrayRef().end());
  to.link = {cluster.getLatency(), cluster.getBytesPerS()};
  to.dataParallel = cluster.getDataParallel();
  to.dataParallelLink = {cluster.getReplicaLatency(), cluster.getReplicaBytesPerS()};
  to.zero = cluster.getZero();
  to.parts = cluster.getParts();
  to.rankOrder = rankOrderOf(cluster);
  return to;
}

void writeLoads(ModuleOp module, const std::vector<planner::LoadFactors> &loads) {
  Builder builder(module.getContext());
  SmallVector<Attribute> list;
  for (const planner::LoadFactors &factors : loads) {
    SmallVector<NamedAttribute> entries;
    for (const auto &[kind, factor] : factors)
      entries.push_back(
          builder.getNamedAttr(kind, builder.getI64IntegerAttr(factor.times(LoadAttr::unit))));
    list.push_back(LoadAttr::get(module.getContext(), builder.getDictionaryAttr(entries)));
  }
  if (list.empty())
    module->removeAttr(loadsAttrName);
  else
    module->setAttr(loadsAttrName, builder.getArrayAttr(list));
}

FailureOr<planner::Problem> readProblem(ModuleOp module, StringRef pass) {
  return ProblemReader(module, pass).run();
}

void writePlan(ModuleOp module, const planner::Problem &problem, const planner::Plan &plan) {
  Builder builder(module.getContext());
  int64_t index = 0, chunk = 0;
  for (LayerOp layer : module.lookupSymbol<func::FuncOp>("main").getOps<LayerOp>()) {
    while (plan.cuts[chunk + 1] <= index)
      ++chunk;
    layer->setAttr(chunkAttrName, builder.getI64IntegerAttr(chunk));
    layer->setAttr(rematAttrName, builder.getStringAttr(plan.remat[index++]));
  }
  module->setAttr(planAttrName,
                  makePlanAttr(module.getContext(), plan, problem.cluster, problem.microbatches));
}

/// Variants of a chunk are options of its layers, equally many on each, and the plan's own choice
/// is among them.
static LogicalResult checkVariants(LayerOp layer, const planner::Plan &plan, size_t &ofChunk) {
  auto variants = layer->getAttrOfType<ArrayAttr>(rematVariantsAttrName);
  auto cost = layer->getAttrOfType<CostAttr>(costAttrName);
  const size_t count = variants ? variants.size() : 1;
  if (ofChunk != 0 && count != ofChunk)
    return layer.emitOpError() << "plan_c3: has " << count
                               << " variants, the layer before it in its "
                               << "chunk " << ofChunk;
  ofChunk = count;
  bool hasOwn = !variants;
  for (Attribute each : variants ? variants.getValue() : ArrayRef<Attribute>()) {
    auto name = dyn_cast<StringAttr>(each);
    if (!name || (cost && !cost.findOption(name.getValue())))
      return layer.emitOpError() << "plan_c3: has no option " << each
                                 << " among those of its omnibal.cost";
    hasOwn |= name.getValue() == plan.remat.back();
  }
  return hasOwn ? success()
                : layer.emitOpError() << "plan_c3: its omnibal.remat is none of its variants";
}

FailureOr<planner::Plan> readPlan(ModuleOp module, StringRef pass) {
  auto attribute = module->getAttrOfType<PlanAttr>(planAttrName);
  if (!attribute)
    return module.emitError() << pass << ": the module has no omnibal.plan", failure();
  auto graph = LayerGraph::get(module, pass);
  if (failed(graph))
    return failure();
  planner::Plan plan;
  plan.schedule = attribute.getSchedule().str();
  plan.chunkStage.assign(attribute.getChunkStages().begin(), attribute.getChunkStages().end());
  plan.cuts = {0};
  size_t variants = 0; // of the chunk; 0: not known yet
  for (auto [index, layer] : llvm::enumerate(graph->layers)) {
    auto chunk = layer->getAttrOfType<IntegerAttr>(chunkAttrName);
    if (!chunk)
      return layer.emitOpError() << "plan_c1: has no omnibal.chunk", failure();
    int64_t current = static_cast<int64_t>(plan.cuts.size()) - 1;
    if (chunk.getInt() == current + 1 && index > 0) {
      plan.cuts.push_back(static_cast<int64_t>(index));
      variants = 0;
    } else if (chunk.getInt() != current)
      return layer.emitOpError() << "plan_c1: has chunk " << chunk.getInt() << " after chunk "
                                 << current << "; chunks begin with 0 and hold consecutive layers",
             failure();
    auto remat = layer->getAttrOfType<StringAttr>(rematAttrName);
    auto cost = layer->getAttrOfType<CostAttr>(costAttrName);
    plan.remat.push_back(remat ? remat.str() : "keep");
    if (cost && !cost.findOption(plan.remat.back()))
      return layer.emitOpError() << "plan_c3: has no option \"" << plan.remat.back()
                                 << "\" among those of its omnibal.cost",
             failure();
    if (failed(checkVariants(layer, plan, variants)))
      return failure();
  }
  plan.cuts.push_back(static_cast<int64_t>(graph->layers.size()));
  // Without lists the verifier says what is missing.
  if (llvm::Expected<ActionLists> actions = computeActions(attribute))
    plan.actions = std::move(*actions);
  else
    llvm::consumeError(actions.takeError());
  return plan;
}

} // namespace omnibal::plan
