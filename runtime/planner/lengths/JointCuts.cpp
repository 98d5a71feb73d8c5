#include "runtime/planner/lengths/JointCuts.h"
#include "runtime/planner/model/ScheduleRules.h"
#include "runtime/planner/search/LoadedSearch.h"
#include <algorithm>
#include <limits>
#include <set>

namespace omnibal::planner {
namespace {

using SharedCuts = std::vector<int64_t>;
constexpr double cannotBe = std::numeric_limits<double>::infinity();
constexpr size_t keptPlans = 5; ///< of the best cuts

class JointCutSearch {
public:
  JointCutSearch(const std::vector<JointMode> &modes, const JointOptions &options)
      : modes(modes), options(options) {}

  JointSearch run() {
    for (const JointMode &mode : modes) {
      SearchResult alone = mode.known ? *mode.known : searchForLoads(mode.problem, options.search);
      if (alone.plan)
        result.boundNs += mode.steps * static_cast<double>(alone.lowerBoundNs);
      result.alone.push_back(std::move(alone));
    }
    for (const SearchResult &alone : result.alone)
      if (alone.plan)
        consider(alone.plan->cuts);
    sort();
    tryNeighbors(options.moved);
    for (double last = cannotBe; !result.tried.empty() && result.tried.front().value < last;) {
      last = result.tried.front().value;
      tryNeighbors(1);
    }
    return std::move(result);
  }

private:
  void consider(const SharedCuts &cuts) {
    if (known.size() >= options.most || !known.insert(cuts).second)
      return;
    JointPlans plans{cuts, {}, 0};
    for (size_t m = 0; m < modes.size(); ++m) {
      const SearchResult &alone = result.alone[m];
      if (!alone.plan || (alone.plan->cuts == cuts && isInTurn(modes[m].problem, *alone.plan)))
        plans.modes.push_back(alone);
      else
        plans.modes.push_back(planWithCuts(modes[m].problem, cuts, options.search));
    }
    plans.value = options.value ? options.value(plans.modes) : epochNs(plans.modes);
    result.tried.push_back(std::move(plans));
  }

  /// Modes share the stages of chunks, too.
  static bool isInTurn(const Problem &problem, const Plan &plan) {
    return plan.chunkStage ==
           stagesInTurn(static_cast<int64_t>(plan.cuts.size()) - 1, problem.cluster.stages);
  }

  double epochNs(const std::vector<SearchResult> &plans) const {
    double sum = 0;
    for (size_t m = 0; m < modes.size(); ++m)
      sum += plans[m].plan ? modes[m].steps * static_cast<double>(plans[m].plan->stepNs) : cannotBe;
    return sum;
  }

  void sort() {
    std::stable_sort(result.tried.begin(), result.tried.end(),
                     [](const JointPlans &a, const JointPlans &b) { return a.value < b.value; });
    for (size_t i = keptPlans; i < result.tried.size(); ++i)
      result.tried[i].modes.clear(); // many modes of many micro-batches take much memory
  }

  void tryNeighbors(size_t count) {
    // A search of lists for one choice of cuts takes as long as for all.
    for (const JointMode &mode : modes)
      if (mode.problem.schedule == "auto")
        return;
    std::vector<SharedCuts> best;
    for (size_t i = 0; i < std::min(count, result.tried.size()); ++i)
      best.push_back(result.tried[i].cuts);
    for (const SharedCuts &cuts : best)
      for (size_t first = 1; first + 1 < cuts.size(); ++first)
        for (int64_t step : {-1, 1})
          for (int64_t next : {0, -1, 1})
            tryMoved(cuts, first, step, next);
    sort();
  }

  /// The boundary moved, and the next one.
  void tryMoved(SharedCuts cuts, size_t boundary, int64_t step, int64_t next) {
    cuts[boundary] += step;
    if (boundary + 2 < cuts.size())
      cuts[boundary + 1] += next;
    else if (next != 0)
      return;
    if (std::adjacent_find(cuts.begin(), cuts.end(), std::greater_equal<>()) == cuts.end())
      consider(cuts);
  }

  const std::vector<JointMode> &modes;
  const JointOptions &options;
  std::set<SharedCuts> known;
  JointSearch result;
};

} // namespace

SearchResult planWithCuts(const Problem &problem, const std::vector<int64_t> &cuts,
                          const SearchOptions &options) {
  const auto chunks = static_cast<int64_t>(cuts.size()) - 1;
  const std::optional<int64_t> perStage = chunksPerStage(problem.schedule);
  if (chunks != problem.cluster.stages * perStage.value_or(chunks / problem.cluster.stages)) {
    SearchResult none;
    none.problem = "the schedule " + problem.schedule + " does not run " + std::to_string(chunks) +
                   " chunks on " + std::to_string(problem.cluster.stages) + " stages";
    return none;
  }
  Problem given = problem;
  given.varyCuts = false;
  given.givenCuts = cuts;
  return searchForLoads(given, options);
}

JointSearch searchJointCuts(const std::vector<JointMode> &modes, const JointOptions &options) {
  return JointCutSearch(modes, options).run();
}

} // namespace omnibal::planner
