#include "runtime/planner/search/LoadedSearch.h"
#include "runtime/planner/evaluate/Simulator.h"
#include <algorithm>

namespace omnibal::planner {
namespace {

constexpr SearchOptions refitting{10, false};

/// The plan with what full micro-batches have to recompute; none where its cuts and lists leave no
/// room for that.
std::optional<Plan> refitted(const Problem &full, Plan plan) {
  Plan again = plan;
  again.remat.clear();
  if (completePlan(full, again, refitting).empty() && !again.remat.empty())
    plan.remat = again.remat;
  Timeline timeline = simulate(full, plan);
  const bool fits =
      timeline.error.empty() &&
      std::all_of(timeline.stages.begin(), timeline.stages.end(), [&](const StageFigures &stage) {
        return full.cluster.memoryBytes.empty() || stage.peakBytes <= stage.limitBytes;
      });
  return fits ? std::optional(std::move(plan)) : std::nullopt;
}

} // namespace

SearchResult searchForLoads(const Problem &problem, const SearchOptions &options) {
  SearchResult found = searchPlan(problem, options);
  if (!found.plan || problem.factors.empty())
    return found;
  Problem full = problem;
  full.factors.clear();
  std::optional<Plan> best = refitted(full, *found.plan);
  if (!best || best->remat != found.plan->remat) {
    SearchResult atFull = searchPlan(full, options);
    auto lengthOf = [&](const Plan &plan) { return simulate(problem, plan).stepNs; };
    if (atFull.plan && (!best || lengthOf(*atFull.plan) < lengthOf(*best)))
      best = atFull.plan;
    if (!best)
      found.problem = atFull.problem;
  }
  if (best) {
    Timeline timeline = simulate(problem, *best);
    best->stepNs = timeline.stepNs;
    best->stages = std::move(timeline.stages);
  }
  found.plan = std::move(best);
  found.provedOptimal &= found.plan && found.plan->stepNs <= found.lowerBoundNs;
  return found;
}

} // namespace omnibal::planner
