#include "runtime/planner/model/PlanningModel.h"
#include "runtime/planner/model/LinkTimes.h"
#include <algorithm>
#include <map>

namespace omnibal::planner {
namespace {

/// All options of a layer, or the given one alone.
std::vector<RematOption> allowedOptions(const Problem &problem, size_t layer) {
  if (problem.varyRemat)
    return problem.layers[layer].remat;
  return {*problem.layers[layer].option(problem.givenRemat[layer])};
}

LoadModel resolve(const Problem &problem, int64_t microbatch) {
  LoadModel load;
  load.forwardSum = load.backwardSum = load.inputGradSum = {0};
  std::vector<Decimal> factors;
  for (const Layer &layer : problem.layers) {
    Decimal factor = problem.factor(microbatch, layer.kind);
    factors.push_back(factor);
    load.forward.push_back(factor.times(layer.forwardNs));
    int64_t inputGrad = factor.times(layer.inputGradNs);
    load.backward.push_back(inputGrad + factor.times(layer.weightGradNs));
    load.inputGradSum.push_back(load.inputGradSum.back() + inputGrad);
    load.forwardSum.push_back(load.forwardSum.back() + load.forward.back());
    load.backwardSum.push_back(load.backwardSum.back() + load.backward.back());
    load.remat.push_back(allowedOptions(problem, load.remat.size()));
    for (RematOption &option : load.remat.back()) {
      option.splitBytes = factor.times(option.heldWhileSplit());
      option.savedBytes = factor.times(option.savedBytes);
      option.recomputeNs = factor.times(option.recomputeNs);
    }
  }
  for (const Edge &edge : problem.edges) {
    load.edgeBytes.push_back(factors[edge.from].times(edge.bytes));
    load.edgeGradBytes.push_back(factors[edge.from].times(edge.gradBytes));
  }
  return load;
}

} // namespace

PlanningModel::PlanningModel(const Problem &p)
    : problem(p), layers(static_cast<int64_t>(p.layers.size())), stages(p.cluster.stages),
      microbatches(p.microbatches), edgesInto(p.layers.size()) {
  std::map<LoadFactors, int> known;
  for (int64_t m = 0; m < microbatches; ++m) {
    LoadFactors factors = p.factors.empty() ? LoadFactors() : p.factors[m];
    auto [it, fresh] = known.try_emplace(factors, static_cast<int>(loads.size()));
    if (fresh)
      loads.push_back(resolve(p, m));
    loadOf.push_back(it->second);
  }
  countOf.assign(loads.size(), 0);
  for (int load : loadOf)
    ++countOf[load];
  workSum.assign(layers + 1, 0);
  for (size_t load = 0; load < loads.size(); ++load)
    for (int64_t l = 0; l <= layers; ++l)
      workSum[l] += countOf[load] * (loads[load].forwardSum[l] + loads[load].backwardSum[l]);
  paramSum = {0};
  replicaSum = {{}};
  for (const Layer &layer : p.layers) {
    paramSum.push_back(paramSum.back() + residentBytes(p.cluster, layer));
    replicaSum.push_back(replicaSum.back() + replicaBytes(layer));
  }
  for (size_t e = 0; e < p.edges.size(); ++e)
    edgesInto[p.edges[e].to].push_back(static_cast<int>(e));
}

int64_t PlanningModel::reductionNs(const ReplicaBytes &bytes) const {
  return planner::reductionNs(problem.cluster, bytes);
}

int64_t PlanningModel::transferNs(int64_t bytes) const {
  return planner::transferNs(problem.cluster.link, bytes);
}

int64_t PlanningModel::inFlight(int64_t stage) const {
  return isGpipe() ? microbatches : std::min(microbatches, stages - stage);
}

} // namespace omnibal::planner
