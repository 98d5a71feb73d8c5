#include "runtime/planner/lengths/ModeTimes.h"
#include "runtime/planner/evaluate/Simulator.h"
#include "runtime/planner/model/ScheduleRules.h"
#include <algorithm>
#include <cmath>

namespace omnibal::planner {
namespace {

/// A step of more micro-batches goes on as the last of these.
int64_t simulatedMicrobatches(const Problem &problem) {
  return std::min(problem.microbatches, 4 * problem.cluster.stages);
}

bool seesTiles(const std::string &kind) { return kind == "vision" || kind == "projector"; }

/// Bytes between layers grow with the rows of the sender.
int64_t scaledBytes(int64_t bytes, double share) {
  return bytes == 0 ? 0 : std::max<int64_t>(1, std::llround(static_cast<double>(bytes) * share));
}

LoadTime bothWays(const OptionTime &option) {
  LoadTime sum = option.forward;
  sum += option.backward;
  return sum;
}

} // namespace

ModeLoad meanGroup(const rt::LengthGroup &group, const ModeLoad &samples) {
  const double full = std::max(samples.tokens / static_cast<double>(group.tokensCap),
                               samples.tiles / static_cast<double>(group.tilesCap));
  return full > 0 ? samples.times(1 / full) : samples;
}

std::vector<LoadTime> stageTimes(const ModeProblem &mode, const std::vector<int64_t> &cuts,
                                 const std::vector<int> &options) {
  std::vector<LoadTime> stages(cuts.size() - 1);
  for (size_t s = 0; s < stages.size(); ++s) {
    stages[s].fixedNs = 2 * mode.actionNs;
    for (int64_t l = cuts[s]; l < cuts[s + 1]; ++l)
      stages[s] += bothWays(mode.times[l][options[l]]);
  }
  return stages;
}

LoadTime leastTime(const std::vector<OptionTime> &options) {
  LoadTime least = bothWays(options.front());
  for (const OptionTime &option : options) {
    const LoadTime time = bothWays(option);
    least = {std::min(least.fixedNs, time.fixedNs), std::min(least.tileNs, time.tileNs),
             std::min(least.tokenNs, time.tokenNs), std::min(least.squareNs, time.squareNs)};
  }
  return least;
}

LoadTime beyondLeast(const std::vector<OptionTime> &options, size_t option) {
  const LoadTime least = leastTime(options), time = bothWays(options[option]);
  return {time.fixedNs - least.fixedNs, time.tileNs - least.tileNs, time.tokenNs - least.tokenNs,
          time.squareNs - least.squareNs};
}

size_t slowestStage(const std::vector<LoadTime> &stages, const ModeLoad &load) {
  size_t slowest = 0;
  for (size_t s = 1; s < stages.size(); ++s)
    if (stages[s].of(load) > stages[slowest].of(load))
      slowest = s;
  return slowest;
}

Problem problemAt(const ModeProblem &mode, const std::vector<int64_t> &cuts,
                  const std::vector<int> &options, const ModeLoad &load) {
  const Problem &full = mode.problem;
  Problem result;
  result.schedule = full.schedule;
  result.microbatches = simulatedMicrobatches(full);
  result.cluster = full.cluster;
  result.cluster.memoryBytes.clear();
  for (size_t l = 0; l < full.layers.size(); ++l) {
    const OptionTime &time = mode.times[l][options[l]];
    Layer layer;
    layer.name = full.layers[l].name;
    layer.kind = full.layers[l].kind;
    layer.forwardNs = std::llround(time.forward.of(load));
    layer.inputGradNs = std::llround(time.backward.of(load));
    layer.gradBytes = full.layers[l].gradBytes;
    layer.remat = {{"keep"}};
    result.layers.push_back(std::move(layer));
  }
  for (size_t s = 0; s + 1 < cuts.size(); ++s) {
    result.layers[cuts[s]].forwardNs += std::llround(mode.actionNs);
    result.layers[cuts[s]].inputGradNs += std::llround(mode.actionNs);
  }
  for (Edge edge : full.edges) {
    const bool ofTiles = seesTiles(full.layers[edge.from].kind);
    const double share = ofTiles ? load.tiles / std::max(1.0, mode.full.tiles)
                                 : load.tokens / std::max(1.0, mode.full.tokens);
    edge.bytes = scaledBytes(edge.bytes, share);
    edge.gradBytes = scaledBytes(edge.gradBytes, share);
    result.edges.push_back(edge);
  }
  return result;
}

double stepOverheadNs(const ModeProblem &mode, const std::vector<int64_t> &cuts,
                      const std::vector<int> &options, const ModeLoad &load) {
  const Problem problem = problemAt(mode, cuts, options, load);
  Plan plan;
  plan.cuts = cuts;
  plan.chunkStage = stagesInTurn(problem.cluster.stages, problem.cluster.stages);
  plan.remat.assign(problem.layers.size(), "keep");
  plan.schedule = problem.schedule;
  plan.actions = *scheduleActions(problem.schedule, problem.cluster.stages, problem.microbatches);
  const std::vector<LoadTime> stages = stageTimes(mode, cuts, options);
  const double slowest = stages[slowestStage(stages, load)].of(load);
  const auto rows = static_cast<double>(problem.microbatches + problem.cluster.stages - 1);
  return std::max(0.0, static_cast<double>(simulate(problem, plan).stepNs) - rows * slowest);
}

rt::ModeCost modeCost(const ModeProblem &mode, const std::vector<int64_t> &cuts,
                      const std::vector<int> &options, const ModeLoad &load) {
  const std::vector<LoadTime> stages = stageTimes(mode, cuts, options);
  const LoadTime &slowest = stages[slowestStage(stages, load)];
  return {slowest.tileNs, slowest.tokenNs, slowest.squareNs, slowest.fixedNs,
          stepOverheadNs(mode, cuts, options, load)};
}

} // namespace omnibal::planner
