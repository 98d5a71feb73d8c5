#include "runtime/planner/evaluate/Simulator.h"
#include "runtime/planner/model/LinkTimes.h"
#include <algorithm>
#include <map>

namespace omnibal::planner {
namespace {

/// Durations and bytes of one chunk for one load, summed over its layers with their options.
struct ChunkCost {
  int64_t forward = 0, recompute = 0, inputGrad = 0, weightGrad = 0;
  int64_t saved = 0, split = 0;

  int64_t duration(ActionKind kind) const {
    switch (kind) {
    case ActionKind::Forward:
      return forward;
    case ActionKind::Backward:
      return recompute + inputGrad + weightGrad;
    case ActionKind::InputGrad:
      return recompute + inputGrad;
    case ActionKind::WeightGrad:
      return weightGrad;
    }
    return 0;
  }
};

/// What a chunk needs whatever the load.
struct ChunkFixed {
  int64_t workspace = 0, params = 0;
  ReplicaBytes reduced;
};

/// What flows between two chunks.
struct Transfer {
  int64_t forwardNs = 0, backwardNs = 0;
};

using Pair = std::pair<int64_t, int64_t>;

/// All that depends on a micro-batch's load. Equal micro-batches share one.
struct LoadCost {
  std::vector<ChunkCost> chunks;
  std::map<Pair, Transfer> transfers; ///< by (from, to) chunk
};

class Simulation {
public:
  Simulation(const Problem &problem, const Plan &plan) : problem(problem), plan(plan) {}

  Timeline run() {
    if (!prepare())
      return std::move(timeline);
    if (advanceAll())
      account();
    return std::move(timeline);
  }

private:
  bool prepare() {
    if (!readCuts() || !checkActions())
      return false;
    std::map<LoadFactors, size_t> known;
    for (int64_t m = 0; m < problem.microbatches; ++m) {
      auto [it, fresh] =
          known.try_emplace(problem.factors.empty() ? LoadFactors() : problem.factors[m], 0);
      if (fresh) {
        it->second = loads.size();
        loads.push_back(costOfLoad(m));
      }
      loadOf.push_back(it->second);
    }
    timeline.times.resize(plan.actions.size());
    for (size_t r = 0; r < plan.actions.size(); ++r)
      timeline.times[r].resize(plan.actions[r].size());
    return true;
  }

  bool readCuts() {
    size_t layers = problem.layers.size();
    if (plan.cuts.size() < 2 || plan.cuts.front() != 0 ||
        plan.cuts.back() != static_cast<int64_t>(layers) || plan.remat.size() != layers ||
        plan.chunkStage.size() + 1 != plan.cuts.size())
      return fail("the plan's cuts, chunk stages or remat list do not cover the layers");
    // All of them first: a cut behind the last layer comes before one that is no later than it.
    for (size_t c = 0; c + 1 < plan.cuts.size(); ++c)
      if (plan.cuts[c] >= plan.cuts[c + 1])
        return fail("chunk " + std::to_string(c) + " is empty");
    for (size_t c = 0; c + 1 < plan.cuts.size(); ++c) {
      ChunkFixed chunk;
      for (int64_t l = plan.cuts[c]; l < plan.cuts[c + 1]; ++l) {
        const Layer &layer = problem.layers[l];
        const RematOption *option = layer.option(plan.remat[l]);
        if (!option)
          return fail("layer " + layer.name + " has no remat option " + plan.remat[l]);
        chunkOf.push_back(static_cast<int64_t>(c));
        chosen.push_back(option);
        chunk.workspace = std::max(chunk.workspace, option->workspaceBytes);
        chunk.params += residentBytes(problem.cluster, layer);
        chunk.reduced = chunk.reduced + replicaBytes(layer);
      }
      fixed.push_back(chunk);
    }
    for (const Edge &edge : problem.edges) {
      Pair ends{chunkOf[edge.from], chunkOf[edge.to]};
      if (ends.first == ends.second)
        continue;
      feeds.try_emplace(ends, false);
      feeds[ends] |= edge.gradBytes != 0;
    }
    return true;
  }

  bool checkActions() {
    int64_t chunks = static_cast<int64_t>(fixed.size());
    for (size_t r = 0; r < plan.actions.size(); ++r)
      for (const Action &action : plan.actions[r])
        if (action.chunk < 0 || action.chunk >= chunks || action.microbatch < 0 ||
            action.microbatch >= problem.microbatches ||
            plan.chunkStage[action.chunk] != static_cast<int64_t>(r))
          return fail("stage " + std::to_string(r) + " has an action of chunk " +
                      std::to_string(action.chunk) + ", micro-batch " +
                      std::to_string(action.microbatch) + ", which is not its own");
    return true;
  }

  /// Each number of a layer or an edge is rounded up by itself, before any sum.
  LoadCost costOfLoad(int64_t microbatch) const {
    LoadCost load;
    load.chunks.resize(fixed.size());
    std::vector<Decimal> factors;
    for (size_t l = 0; l < problem.layers.size(); ++l) {
      const Layer &layer = problem.layers[l];
      Decimal factor = problem.factor(microbatch, layer.kind);
      factors.push_back(factor);
      ChunkCost &cost = load.chunks[chunkOf[l]];
      cost.forward += factor.times(layer.forwardNs);
      cost.recompute += factor.times(chosen[l]->recomputeNs);
      cost.inputGrad += factor.times(layer.inputGradNs);
      cost.weightGrad += factor.times(layer.weightGradNs);
      cost.saved += factor.times(chosen[l]->savedBytes);
      cost.split += factor.times(chosen[l]->heldWhileSplit());
    }
    struct Bytes {
      int64_t forward = 0, backward = 0, forwardFull = 0, backwardFull = 0;
    };
    std::map<Pair, Bytes> bytes;
    for (const Edge &edge : problem.edges) {
      Bytes &sum = bytes[{chunkOf[edge.from], chunkOf[edge.to]}];
      sum.forward += factors[edge.from].times(edge.bytes);
      sum.backward += factors[edge.from].times(edge.gradBytes);
      sum.forwardFull += edge.bytes;
      sum.backwardFull += edge.gradBytes;
    }
    // Free on one stage and where nothing flows whatever the load; a load of zero still sends.
    for (const auto &[ends, sum] : bytes)
      if (plan.chunkStage[ends.first] != plan.chunkStage[ends.second])
        load.transfers[ends] = {sum.forwardFull ? transferNs(problem.cluster.link, sum.forward) : 0,
                                sum.backwardFull ? transferNs(problem.cluster.link, sum.backward)
                                                 : 0};
    return load;
  }

  const LoadCost &loadOfAction(const Action &action) const {
    return loads[loadOf[action.microbatch]];
  }

  /// Earliest start allowed by the inputs of an action; -1 while an input is not known yet.
  int64_t readyAt(const Action &action) const {
    int64_t ready = 0;
    const std::map<Pair, Transfer> &transfers = loadOfAction(action).transfers;
    auto delay = [&](const Pair &ends) {
      auto found = transfers.find(ends);
      return found == transfers.end() ? Transfer{} : found->second;
    };
    auto need = [&](const std::map<Pair, int64_t> &ends, int64_t chunk, int64_t extra) {
      auto it = ends.find({chunk, action.microbatch});
      if (ready < 0 || it == ends.end())
        ready = -1;
      else
        ready = std::max(ready, it->second + extra);
    };
    if (action.kind == ActionKind::Forward) {
      for (const auto &[ends, gradient] : feeds)
        if (ends.second == action.chunk)
          need(forwardEnd, ends.first, delay(ends).forwardNs);
      return ready;
    }
    if (action.kind == ActionKind::WeightGrad) {
      need(backwardEnd, action.chunk, 0);
      return ready;
    }
    need(forwardEnd, action.chunk, 0);
    for (const auto &[ends, gradient] : feeds)
      if (gradient && ends.first == action.chunk)
        need(backwardEnd, ends.second, delay(ends).backwardNs);
    return ready;
  }

  int64_t duration(const Action &action) const {
    return loadOfAction(action).chunks[action.chunk].duration(action.kind);
  }

  bool advanceAll() {
    size_t stages = plan.actions.size();
    std::vector<size_t> next(stages, 0);
    std::vector<int64_t> clock(stages, 0);
    for (bool progress = true; progress;) {
      progress = false;
      for (size_t r = 0; r < stages; ++r)
        while (next[r] < plan.actions[r].size()) {
          const Action &action = plan.actions[r][next[r]];
          int64_t ready = readyAt(action);
          if (ready < 0)
            break;
          int64_t start = std::max(ready, clock[r]), end = start + duration(action);
          timeline.times[r][next[r]++] = {start, end};
          clock[r] = end;
          auto key = std::make_pair(action.chunk, action.microbatch);
          if (action.kind == ActionKind::Forward)
            forwardEnd[key] = end;
          else if (action.kind != ActionKind::WeightGrad)
            backwardEnd[key] = end;
          progress = true;
        }
    }
    for (size_t r = 0; r < stages; ++r)
      if (next[r] < plan.actions[r].size())
        return fail("the action lists cannot finish: stage " + std::to_string(r) +
                    " waits for ever at its action " + std::to_string(next[r]));
    return true;
  }

  void account() {
    size_t stages = plan.actions.size();
    timeline.stages.resize(stages);
    std::vector<int64_t> reduction(stages, 0);
    for (size_t r = 0; r < stages; ++r) {
      StageFigures &figures = timeline.stages[r];
      int64_t params = 0, workspace = 0;
      ReplicaBytes reduced;
      for (size_t c = 0; c < fixed.size(); ++c)
        if (plan.chunkStage[c] == static_cast<int64_t>(r)) {
          params += fixed[c].params;
          workspace = std::max(workspace, fixed[c].workspace);
          reduced = reduced + fixed[c].reduced;
        }
      int64_t held = 0, most = 0;
      for (const Action &action : plan.actions[r]) {
        const ChunkCost &cost = loadOfAction(action).chunks[action.chunk];
        (action.kind == ActionKind::Forward ? figures.forwardNs : figures.backwardNs) +=
            duration(action);
        if (action.kind == ActionKind::Backward || action.kind == ActionKind::InputGrad)
          figures.recomputeNs += cost.recompute;
        if (action.kind == ActionKind::Forward)
          held += cost.saved;
        else if (action.kind == ActionKind::InputGrad)
          held += cost.split - cost.saved;
        most = std::max(most, held);
        if (action.kind == ActionKind::Backward)
          held -= cost.saved;
        else if (action.kind == ActionKind::WeightGrad)
          held -= cost.split;
      }
      figures.peakBytes = params + most + workspace;
      const std::vector<int64_t> &limits = problem.cluster.memoryBytes;
      figures.limitBytes = limits.empty() ? 0 : limits[limits.size() == 1 ? 0 : r];
      reduction[r] = reductionNs(problem.cluster, reduced);
      int64_t end = timeline.times[r].empty() ? 0 : timeline.times[r].back().endNs;
      timeline.stepNs = std::max(timeline.stepNs, end + reduction[r]);
    }
    for (size_t r = 0; r < stages; ++r) {
      StageFigures &figures = timeline.stages[r];
      figures.idleNs = timeline.stepNs - figures.forwardNs - figures.backwardNs - reduction[r];
    }
  }

  bool fail(std::string message) {
    timeline.error = std::move(message);
    return false;
  }

  const Problem &problem;
  const Plan &plan;
  Timeline timeline;
  std::vector<int64_t> chunkOf;            ///< by layer
  std::vector<const RematOption *> chosen; ///< by layer
  std::vector<ChunkFixed> fixed;           ///< by chunk
  std::map<Pair, bool> feeds;              ///< (from, to) chunks; whether a gradient flows back
  std::vector<LoadCost> loads;
  std::vector<size_t> loadOf;                      ///< by micro-batch
  std::map<Pair, int64_t> forwardEnd, backwardEnd; ///< by (chunk, micro-batch)
};

} // namespace

Timeline simulate(const Problem &problem, const Plan &plan) {
  return Simulation(problem, plan).run();
}

} // namespace omnibal::planner
