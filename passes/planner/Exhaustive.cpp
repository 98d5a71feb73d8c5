#include "passes/planner/Exhaustive.h"
#include "passes/planner/ScheduleRules.h"
#include "passes/planner/Simulator.h"
#include <algorithm>
#include <functional>
#include <map>

namespace omnibal::planner {
namespace {

/// Options of the layers of one stage, and what they cost for each micro-batch.
struct Choice {
  std::vector<std::string> options;
  std::vector<int64_t> recompute, saved;
  int64_t workspace = 0;

  bool noWorse(const Choice &other) const {
    auto noneAbove = [](const std::vector<int64_t> &a, const std::vector<int64_t> &b) {
      return std::equal(a.begin(), a.end(), b.begin(), std::less_equal<>());
    };
    return workspace <= other.workspace && noneAbove(recompute, other.recompute) &&
           noneAbove(saved, other.saved);
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
    for (int64_t r = 0; r < p.cluster.stages; ++r)
      plan.chunkRank.push_back(r);
  }

  std::optional<Plan> run() {
    plan.cuts = {0};
    cut();
    return std::move(best);
  }

private:
  void cut() {
    auto layers = static_cast<int64_t>(problem.layers.size());
    auto stage = static_cast<int64_t>(plan.cuts.size()) - 1;
    if (stage == problem.cluster.stages) {
      choose(0);
      return;
    }
    bool last = stage + 1 == problem.cluster.stages;
    for (int64_t end = last ? layers : plan.cuts.back() + 1; end <= layers; ++end) {
      if (!problem.varyCuts && problem.givenCuts[stage + 1] != end)
        continue;
      if (choicesOf(stage, plan.cuts.back(), end).empty())
        continue;
      plan.cuts.push_back(end);
      cut();
      plan.cuts.pop_back();
    }
  }

  void choose(int64_t stage) {
    if (stage == problem.cluster.stages) {
      judge();
      return;
    }
    for (const Choice &choice : choicesOf(stage, plan.cuts[stage], plan.cuts[stage + 1])) {
      std::copy(choice.options.begin(), choice.options.end(),
                plan.remat.begin() + plan.cuts[stage]);
      choose(stage + 1);
    }
  }

  void judge() {
    Timeline timeline = simulate(problem, plan);
    if (!timeline.error.empty() || (best && timeline.stepNs >= best->stepNs))
      return;
    for (const RankFigures &rank : timeline.ranks)
      if (rank.limitBytes > 0 && rank.peakBytes > rank.limitBytes)
        return;
    best = plan;
    best->stepNs = timeline.stepNs;
    best->ranks = timeline.ranks;
  }

  const std::vector<Choice> &choicesOf(int64_t stage, int64_t begin, int64_t end) {
    auto [it, fresh] = known.try_emplace({stage, begin, end});
    if (!fresh)
      return it->second;
    std::vector<int64_t> none(problem.microbatches, 0);
    std::vector<Choice> list = {{{}, none, none, 0}};
    for (int64_t layer = begin; layer < end; ++layer)
      list = extended(list, layer);
    std::erase_if(list, [&](const Choice &c) { return !fits(stage, begin, end, c); });
    for (Choice &choice : list) { // among those that fit, memory counts no more
      choice.saved.assign(problem.microbatches, 0);
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
        }
        added.workspace = std::max(added.workspace, option.workspaceBytes);
        added.options.push_back(option.name);
      }
    keepBest(longer);
    return longer;
  }

  /// Follows the rank's action list.
  bool fits(int64_t stage, int64_t begin, int64_t end, const Choice &choice) const {
    const std::vector<int64_t> &limits = problem.cluster.memoryBytes;
    if (limits.empty())
      return true;
    int64_t always = 0, held = 0, most = 0;
    for (int64_t l = begin; l < end; ++l)
      always += problem.layers[l].paramBytes;
    for (const Action &action : plan.actions[stage]) {
      int64_t saved = choice.saved[action.microbatch];
      held += action.kind == ActionKind::Forward ? saved : -saved;
      most = std::max(most, held);
    }
    return always + choice.workspace + most <= limits[limits.size() == 1 ? 0 : stage];
  }

  const Problem &problem;
  Plan plan;
  std::optional<Plan> best;
  std::map<std::vector<int64_t>, std::vector<Choice>> known; ///< by (stage, begin, end)
};

} // namespace

std::optional<Plan> solveExhaustively(const Problem &problem) {
  if (problem.cluster.stages > static_cast<int64_t>(problem.layers.size()))
    return std::nullopt;
  return Solver(problem).run();
}

} // namespace omnibal::planner
