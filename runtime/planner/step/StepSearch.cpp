//===- StepSearch.cpp --------------------------------------------------------------------===//
#include "runtime/planner/step/StepSearch.h"
#include "runtime/planner/step/ListSearch.h"
#include "runtime/planner/step/StepBound.h"
#include "runtime/planner/step/StepPlacement.h"

namespace omnibal::planner {
namespace {

/// Shares of the memory, in percent, that lists are made for: places lose some of it.
constexpr int memoryShares[] = {97, 93, 89};

StepPlan described(const StepUnits &units, const StepLists &lists) {
  StepPlan plan;
  const StepProblem &problem = units.model.problem;
  plan.borders = units.borders;
  plan.variants.resize(problem.chunks.size());
  for (std::vector<std::vector<int64_t>> &chunk : plan.variants)
    chunk.resize(problem.microbatches);
  for (size_t u = 0; u < units.units.size(); ++u)
    plan.variants[units.units[u].chunk][units.units[u].microbatch].push_back(lists.variants[u]);
  plan.actions = actionsOf(units, lists);
  plan.boundNs = stepBound(units);
  return plan;
}

/// The best of several searches, placed.
class PlacedSearch {
public:
  PlacedSearch(const StepModel &model, const StepLoads &loads, const StepSearchOptions &options)
      : model(model), loads(loads), options(options) {}

  std::optional<StepPlan> run() {
    if (model.problem.memoryBytes.empty()) {
      search({}, 1);
    } else {
      for (int percent : memoryShares) {
        std::vector<int64_t> limits;
        for (int64_t s = 0; s < model.problem.stages; ++s)
          limits.push_back(model.problem.memoryOf(s) / 100 * percent);
        search(limits, std::size(memoryShares));
      }
    }
    if (best)
      best->evaluated = evaluated;
    return std::move(best);
  }

  int64_t evaluated = 0;

private:
  void search(const std::vector<int64_t> &limits, int64_t share) {
    ListSearchResult result =
        searchLists({model, loads, loads, limits, options.mostActions / share,
                     options.mostLists / share, options.maySplit, options.polishes, start});
    evaluated += result.evaluated;
    if (!result.best)
      return;
    FoundLists &found = *result.best;
    start = found.candidate;
    const StepUnits &units = found.split->units;
    if (!limits.empty())
      fatten(units, found.split->bytes, limits, found.lists);
    std::optional<PlacedLists> placed = placeBlocks(units, std::move(found.lists));
    if (!placed || (best && best->stepNs <= placed->times.stepNs))
      return;
    best = described(units, placed->lists);
    best->places = std::move(placed->places);
    best->stepNs = placed->times.stepNs;
    best->method = StepMethod::Lists;
  }

  const StepModel &model;
  const StepLoads &loads;
  const StepSearchOptions &options;
  std::optional<ListCandidate> start; ///< the best one for more memory
  std::optional<StepPlan> best;
};

} // namespace

StepPlan StepPlanner::plan(const StepLoads &loads) const {
  StepUnits whole(model, loads, wholeMicrobatches(loads));
  StepLists fixed = staticLists(whole);
  std::optional<StepTimes> fixedTimes = timesOf(whole, fixed);
  PlacedSearch search(model, loads, options);
  std::optional<StepPlan> found = search.run();
  StepPlan plan;
  int64_t staticNs = fixedTimes->stepNs;
  if (found && found->stepNs < staticNs) {
    plan = std::move(*found);
  } else {
    plan = described(whole, fixed);
    plan.stepNs = staticNs;
    plan.evaluated = search.evaluated;
  }
  plan.step = loads.step;
  plan.staticNs = staticNs;
  return plan;
}

} // namespace omnibal::planner
