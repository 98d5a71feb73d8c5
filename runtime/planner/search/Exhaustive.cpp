#include "runtime/planner/search/Exhaustive.h"
#include "runtime/planner/evaluate/Simulator.h"
#include "runtime/planner/model/ScheduleRules.h"
#include <algorithm>
#include <functional>
#include <map>

namespace omnibal::planner {
namespace {

/// Options of the layers of one chunk, and what they cost for each micro-batch.
struct Choice {
  std::vector<std::string> options;
  std::vector<int64_t> recompute, saved, split;
  int64_t workspace = 0;

  bool noWorse(const Choice &other) const {
    auto noneAbove = [](const std::vector<int64_t> &a, const std::vector<int64_t> &b) {
      return std::equal(a.begin(), a.end(), b.begin(), std::less_equal<>());
    };
    return workspace <= other.workspace && noneAbove(recompute, other.recompute) &&
           noneAbove(saved, other.saved) && noneAbove(split, other.split);
  }
};

void keepBest(std::vector<Choice> &choices) {
  std::vector<Choice> best;
  for (Choice &candidate : choices) {
    auto better = [&](const Choice &c) { return c.noWorse(candidate); };
    if (std::any_of(best.begin(), best.end(), better))
      continue;
    std::erase_if(best, [&](const Choice &c) { return candidate.noWorse(c); });
    best.push_back(std::move(candidate));
  }
  choices = std::move(best);
}

class Solver {
public:
  explicit Solver(const Problem &p) : problem(p) {
    plan.schedule = p.schedule;
    plan.actions = *scheduleActions(p.schedule, p.cluster.stages, p.microbatches);
    plan.remat.resize(p.layers.size());
    chunks = p.cluster.stages * *chunksPerStage(p.schedule);
    plan.chunkStage = stagesInTurn(chunks, p.cluster.stages);
  }

  std::optional<Plan> run() {
    plan.cuts = {0};
    cut();
    return std::move(best);
  }

private:
  void cut() {
    auto layers = static_cast<int64_t>(problem.layers.size());
    auto chunk = static_cast<int64_t>(plan.cuts.size()) - 1;
    if (chunk == chunks) {
      choose(0);
      return;
    }
    bool last = chunk + 1 == chunks;
    for (int64_t end = last ? layers : plan.cuts.back() + 1; end <= layers; ++end) {
      if (!problem.varyCuts && problem.givenCuts[chunk + 1] != end)
        continue;
      if (choicesOf(chunk, plan.cuts.back(), end).empty())
        continue;
      plan.cuts.push_back(end);
      cut();
      plan.cuts.pop_back();
    }
  }

  void choose(int64_t chunk) {
    if (chunk == chunks) {
      judge();
      return;
    }
    for (const Choice &choice : choicesOf(chunk, plan.cuts[chunk], plan.cuts[chunk + 1])) {
      std::copy(choice.options.begin(), choice.options.end(),
                plan.remat.begin() + plan.cuts[chunk]);
      choose(chunk + 1);
    }
  }

  void judge() {
    Timeline timeline = simulate(problem, plan);
    if (!timeline.error.empty() || (best && timeline.stepNs >= best->stepNs))
      return;
    for (const StageFigures &stage : timeline.stages)
      if (stage.limitBytes > 0 && stage.peakBytes > stage.limitBytes)
        return;
    best = plan;
    best->stepNs = timeline.stepNs;
    best->stages = timeline.stages;
  }

  const std::vector<Choice> &choicesOf(int64_t chunk, int64_t begin, int64_t end) {
    auto [it, fresh] = known.try_emplace({chunk, begin, end});
    if (!fresh)
      return it->second;
    std::vector<int64_t> none(problem.microbatches, 0);
    std::vector<Choice> list = {{{}, none, none, none, 0}};
    for (int64_t layer = begin; layer < end; ++layer)
      list = extended(list, layer);
    std::erase_if(list, [&](const Choice &c) { return !fits(chunk, begin, end, c); });
    if (chunks == problem.cluster.stages)
      for (Choice &choice : list) { // among those that fit, memory counts no more
        choice.saved = choice.split = none;
        choice.workspace = 0;
      }
    keepBest(list);
    it->second = std::move(list);
    return it->second;
  }

  std::vector<Choice> extended(const std::vector<Choice> &list, int64_t number) const {
    const Layer &layer = problem.layers[number];
    std::vector<Choice> longer;
    for (const Choice &choice : list)
      for (const RematOption &option : layer.remat) {
        if (!problem.varyRemat && problem.givenRemat[number] != option.name)
          continue;
        Choice &added = longer.emplace_back(choice);
        for (int64_t m = 0; m < problem.microbatches; ++m) {
          added.recompute[m] += problem.factor(m, layer.kind).times(option.recomputeNs);
          added.saved[m] += problem.factor(m, layer.kind).times(option.savedBytes);
          added.split[m] += problem.factor(m, layer.kind).times(option.heldWhileSplit());
        }
        added.workspace = std::max(added.workspace, option.workspaceBytes);
        added.options.push_back(option.name);
      }
    keepBest(longer);
    return longer;
  }

  /// Follows the stage's action list, as if the stage had this chunk alone.
  bool fits(int64_t chunk, int64_t begin, int64_t end, const Choice &choice) const {
    const std::vector<int64_t> &limits = problem.cluster.memoryBytes;
    if (limits.empty())
      return true;
    int64_t stage = plan.chunkStage[chunk], always = 0, held = 0, most = 0;
    for (int64_t l = begin; l < end; ++l)
      always += residentBytes(problem.cluster, problem.layers[l]);
    for (const Action &action : plan.actions[stage]) {
      if (action.chunk != chunk)
        continue;
      int64_t saved = choice.saved[action.microbatch], split = choice.split[action.microbatch];
      if (action.kind == ActionKind::Forward)
        held += saved;
      else if (action.kind == ActionKind::InputGrad)
        held += split - saved;
      most = std::max(most, held);
      if (action.kind == ActionKind::Backward)
        held -= saved;
      else if (action.kind == ActionKind::WeightGrad)
        held -= split;
    }
    return always + choice.workspace + most <= limits[limits.size() == 1 ? 0 : stage];
  }

  const Problem &problem;
  int64_t chunks = 0;
  Plan plan;
  std::optional<Plan> best;
  std::map<std::vector<int64_t>, std::vector<Choice>> known; ///< by (chunk, begin, end)
};

} // namespace

std::optional<Plan> solveExhaustively(const Problem &problem) {
  if (problem.cluster.stages * *chunksPerStage(problem.schedule) >
      static_cast<int64_t>(problem.layers.size()))
    return std::nullopt;
  return Solver(problem).run();
}

} // namespace omnibal::planner
