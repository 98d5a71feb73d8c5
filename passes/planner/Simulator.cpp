//===- Simulator.cpp
//------------------------------------------------------------------------------------===//
#include "passes/planner/Simulator.h"
#include <algorithm>
#include <map>

namespace omnibal::planner {
namespace {

int64_t ceilDiv(__int128 a, __int128 b) { return static_cast<int64_t>((a + b - 1) / b); }

int64_t transferNs(const Link &link, int64_t bytes) {
  return link.latencyNs + ceilDiv(static_cast<__int128>(bytes) * 1000000000, link.bytesPerSecond);
}

/// Durations and bytes of one chunk, summed over its layers with their chosen options.
struct ChunkCost {
  int64_t forward = 0, recompute = 0, inputGrad = 0, weightGrad = 0;
  int64_t saved = 0, workspace = 0, params = 0, reduced = 0;
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
    size_t layers = problem.layers.size();
    if (plan.cuts.size() < 2 || plan.cuts.front() != 0 ||
        plan.cuts.back() != static_cast<int64_t>(layers) || plan.remat.size() != layers)
      return fail("the plan's cuts or remat list do not cover the layers");
    chunkOf.resize(layers);
    for (size_t c = 0; c + 1 < plan.cuts.size(); ++c) {
      if (plan.cuts[c] >= plan.cuts[c + 1])
        return fail("chunk " + std::to_string(c) + " is empty");
      ChunkCost cost;
      for (int64_t l = plan.cuts[c]; l < plan.cuts[c + 1]; ++l) {
        chunkOf[l] = static_cast<int64_t>(c);
        const Layer &layer = problem.layers[l];
        const RematOption *option = nullptr;
        for (const RematOption &candidate : layer.remat)
          if (candidate.name == plan.remat[l])
            option = &candidate;
        if (!option)
          return fail("layer " + layer.name + " has no remat option " + plan.remat[l]);
        cost.forward += layer.forwardNs;
        cost.recompute += option->recomputeNs;
        cost.inputGrad += layer.inputGradNs;
        cost.weightGrad += layer.weightGradNs;
        cost.saved += option->savedBytes;
        cost.workspace = std::max(cost.workspace, option->workspaceBytes);
        cost.params += layer.paramBytes;
        cost.reduced += layer.gradBytes;
      }
      chunks.push_back(cost);
    }
    for (const Edge &edge : problem.edges) {
      int64_t from = chunkOf[edge.from], to = chunkOf[edge.to];
      if (from == to)
        continue;
      forwardBytes[{from, to}] += edge.bytes;
      if (edge.gradBytes)
        gradBytes[{from, to}] += edge.gradBytes;
    }
    timeline.times.resize(plan.actions.size());
    for (size_t r = 0; r < plan.actions.size(); ++r)
      timeline.times[r].resize(plan.actions[r].size());
    return true;
  }

  /// Transfer time between two chunks; free on one rank and for edges of zero bytes.
  int64_t delay(int64_t from, int64_t to, int64_t bytes) const {
    if (plan.chunkRank[from] == plan.chunkRank[to] || bytes == 0)
      return 0;
    return transferNs(problem.cluster.link, bytes);
  }

  /// Earliest start allowed by the inputs of an action; -1 while an input is not known yet.
  int64_t readyAt(const Action &action) const {
    int64_t ready = 0;
    auto need = [&](const std::map<std::pair<int64_t, int64_t>, int64_t> &ends, int64_t chunk,
                    int64_t extra) {
      auto it = ends.find({chunk, action.microbatch});
      if (ready < 0 || it == ends.end())
        ready = -1;
      else
        ready = std::max(ready, it->second + extra);
    };
    if (action.kind == ActionKind::Forward) {
      for (const auto &[ends, bytes] : forwardBytes)
        if (ends.second == action.chunk)
          need(forwardEnd, ends.first, delay(ends.first, ends.second, bytes));
      return ready;
    }
    if (action.kind == ActionKind::WeightGrad) {
      need(backwardEnd, action.chunk, 0);
      return ready;
    }
    need(forwardEnd, action.chunk, 0);
    for (const auto &[ends, bytes] : gradBytes)
      if (ends.first == action.chunk)
        need(backwardEnd, ends.second, delay(ends.second, ends.first, bytes));
    return ready;
  }

  int64_t duration(const Action &action) const {
    const ChunkCost &cost = chunks[action.chunk];
    switch (action.kind) {
    case ActionKind::Forward:
      return cost.forward;
    case ActionKind::Backward:
      return cost.recompute + cost.inputGrad + cost.weightGrad;
    case ActionKind::InputGrad:
      return cost.recompute + cost.inputGrad;
    case ActionKind::WeightGrad:
      return cost.weightGrad;
    }
    return 0;
  }

  bool advanceAll() {
    size_t ranks = plan.actions.size();
    std::vector<size_t> next(ranks, 0);
    std::vector<int64_t> clock(ranks, 0);
    for (bool progress = true; progress;) {
      progress = false;
      for (size_t r = 0; r < ranks; ++r)
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
    for (size_t r = 0; r < ranks; ++r)
      if (next[r] < plan.actions[r].size())
        return fail("the action lists cannot finish: rank " + std::to_string(r) +
                    " waits for ever at its action " + std::to_string(next[r]));
    return true;
  }

  int64_t reductionNs(int64_t bytes) const {
    __int128 d = problem.cluster.dataParallel;
    if (d <= 1 || bytes == 0)
      return 0;
    const Link &link = problem.cluster.dataParallelLink;
    return static_cast<int64_t>(2 * (d - 1)) * link.latencyNs +
           ceilDiv(2 * (d - 1) * bytes * 1000000000, d * link.bytesPerSecond);
  }

  void account() {
    size_t ranks = plan.actions.size();
    timeline.ranks.resize(ranks);
    std::vector<int64_t> reduction(ranks, 0);
    for (size_t r = 0; r < ranks; ++r) {
      RankFigures &figures = timeline.ranks[r];
      int64_t fixed = 0, workspace = 0, reduced = 0;
      for (size_t c = 0; c < chunks.size(); ++c)
        if (plan.chunkRank[c] == static_cast<int64_t>(r)) {
          fixed += chunks[c].params;
          workspace = std::max(workspace, chunks[c].workspace);
          reduced += chunks[c].reduced;
        }
      int64_t held = 0, most = 0;
      for (const Action &action : plan.actions[r]) {
        const ChunkCost &cost = chunks[action.chunk];
        if (action.kind == ActionKind::Forward) {
          held += cost.saved;
          figures.forwardNs += cost.forward;
        } else {
          figures.backwardNs += duration(action);
          if (action.kind != ActionKind::WeightGrad)
            figures.recomputeNs += cost.recompute;
        }
        most = std::max(most, held);
        if (action.kind == ActionKind::Backward || action.kind == ActionKind::WeightGrad)
          held -= cost.saved;
      }
      figures.peakBytes = fixed + most + workspace;
      const std::vector<int64_t> &limits = problem.cluster.memoryBytes;
      figures.limitBytes = limits.empty() ? 0 : limits[limits.size() == 1 ? 0 : r];
      reduction[r] = reductionNs(reduced);
      int64_t end = timeline.times[r].empty() ? 0 : timeline.times[r].back().endNs;
      timeline.stepNs = std::max(timeline.stepNs, end + reduction[r]);
    }
    for (size_t r = 0; r < ranks; ++r) {
      RankFigures &figures = timeline.ranks[r];
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
  std::vector<ChunkCost> chunks;
  std::vector<int64_t> chunkOf;
  std::map<std::pair<int64_t, int64_t>, int64_t> forwardBytes, gradBytes; ///< (from, to) chunks
  std::map<std::pair<int64_t, int64_t>, int64_t> forwardEnd, backwardEnd; ///< (chunk, micro-batch)
};

} // namespace

Timeline simulate(const Problem &problem, const Plan &plan) {
  return Simulation(problem, plan).run();
}

} // namespace omnibal::planner
