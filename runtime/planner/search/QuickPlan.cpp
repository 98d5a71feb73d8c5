//===- QuickPlan.cpp ---------------------------------------------------------------------===//
#include "runtime/planner/search/QuickPlan.h"
#include "runtime/planner/evaluate/Simulator.h"
#include "runtime/planner/model/Partition.h"
#include "runtime/planner/model/ScheduleRules.h"
#include <algorithm>

namespace omnibal::planner {
namespace {

const std::string &leanest(const Layer &layer) {
  return std::min_element(
             layer.remat.begin(), layer.remat.end(),
             [](const RematOption &a, const RematOption &b) { return a.savedBytes < b.savedBytes; })
      ->name;
}

bool exceeds(const StageFigures &stage) {
  return stage.limitBytes > 0 && stage.peakBytes > stage.limitBytes;
}

/// Keeps everything; then stages that do not fit keep as little as they can.
std::optional<Plan> fitted(const Problem &problem, Plan plan) {
  for (size_t l = 0; l < problem.layers.size(); ++l)
    plan.remat.push_back(problem.varyRemat ? problem.layers[l].remat.front().name
                                           : problem.givenRemat[l]);
  Timeline timeline = simulate(problem, plan);
  if (problem.varyRemat && timeline.error.empty()) {
    for (size_t c = 0; c + 1 < plan.cuts.size(); ++c)
      for (int64_t l = plan.cuts[c]; l < plan.cuts[c + 1]; ++l)
        if (exceeds(timeline.stages[plan.chunkStage[c]]))
          plan.remat[l] = leanest(problem.layers[l]);
    timeline = simulate(problem, plan);
  }
  if (!timeline.error.empty() ||
      std::any_of(timeline.stages.begin(), timeline.stages.end(), exceeds))
    return std::nullopt;
  plan.stepNs = timeline.stepNs;
  plan.stages = timeline.stages;
  return plan;
}

} // namespace

std::optional<Plan> quickPlan(const Problem &problem) {
  const std::string rule = problem.schedule == "auto" ? "1f1b" : problem.schedule;
  Problem parts; // what the rules look at, with a stage for every chunk
  parts.layers = problem.layers;
  parts.factors = problem.factors;
  parts.microbatches = problem.microbatches;
  parts.cluster.stages = problem.cluster.stages * *chunksPerStage(rule);
  std::vector<std::vector<int64_t>> ways = {problem.givenCuts};
  if (problem.varyCuts)
    ways = {cutsByTime(parts), cutsByLayerCount(parts), cutsByParameters(parts)};
  std::optional<Plan> best;
  for (const std::vector<int64_t> &cuts : ways) {
    Plan plan;
    plan.cuts = cuts;
    plan.schedule = problem.schedule;
    plan.chunkStage = stagesInTurn(parts.cluster.stages, problem.cluster.stages);
    plan.actions = *scheduleActions(rule, problem.cluster.stages, problem.microbatches);
    std::optional<Plan> next = fitted(problem, std::move(plan));
    if (next && (!best || next->stepNs < best->stepNs))
      best = std::move(next);
  }
  return best;
}

} // namespace omnibal::planner
