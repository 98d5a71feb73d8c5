//===- StaticLists.cpp -------------------------------------------------------------------===//
#include "runtime/planner/step/StaticLists.h"
#include "runtime/planner/step/FirstLists.h"
#include "runtime/planner/step/ListSearch.h"
#include <algorithm>
#include <numeric>

namespace omnibal::planner {
namespace {

std::vector<int64_t> limitsOf(const StepProblem &problem) {
  std::vector<int64_t> limits;
  if (!problem.memoryBytes.empty())
    for (int64_t s = 0; s < problem.stages; ++s)
      limits.push_back(problem.memoryOf(s));
  return limits;
}

StaticPlan staticPlanOf(const StepUnits &units, const StepLists &lists) {
  StaticPlan plan;
  const StepProblem &problem = units.model.problem;
  // Vision has no units where there is no tile at all.
  plan.variants.assign(problem.chunks.size(), std::vector<int64_t>(problem.microbatches, 0));
  for (size_t u = 0; u < units.units.size(); ++u)
    plan.variants[units.units[u].chunk][units.units[u].microbatch] = lists.variants[u];
  plan.actions = actionsOf(units, lists);
  return plan;
}

} // namespace

StepLoads loadsAtCaps(const StepProblem &problem) {
  int64_t tokens = problem.tokensCap;
  MicrobatchLoad full{{problem.tilesCap, tokens, tokens * tokens, tokens}, {}};
  return {0, std::vector<MicrobatchLoad>(problem.microbatches, full)};
}

StepLoads meanLoads(const StepProblem &problem, const std::vector<StepLoads> &samples) {
  UnitLoad sum;
  int64_t count = 0;
  for (const StepLoads &sample : samples)
    for (const MicrobatchLoad &microbatch : sample.microbatches) {
      sum.tiles += microbatch.load.tiles;
      sum.tokens += microbatch.load.tokens;
      sum.squares += microbatch.load.squares;
      sum.labels += microbatch.load.labels;
      ++count;
    }
  auto mean = [&](int64_t value) { return (value + count - 1) / std::max<int64_t>(count, 1); };
  // A static plan has actions for vision whether the samples have tiles or not.
  int64_t tiles = std::max(mean(sum.tiles), std::min<int64_t>(problem.tilesCap, 1));
  MicrobatchLoad average{{tiles, mean(sum.tokens), mean(sum.squares), mean(sum.labels)}, {}};
  return {0, std::vector<MicrobatchLoad>(problem.microbatches, average)};
}

int64_t staticSum(const StepProblem &problem, const std::vector<StepLoads> &samples) {
  StepModel model(problem);
  int64_t sum = 0;
  for (const StepLoads &sample : samples) {
    StepUnits units(model, sample, wholeMicrobatches(sample));
    sum += timesOf(units, staticLists(units))->stepNs;
  }
  return sum;
}

bool fitStaticPlan(StepProblem &problem) {
  std::vector<int64_t> limits = limitsOf(problem);
  if (limits.empty())
    return true;
  StepModel model(problem);
  StepLoads full = loadsAtCaps(problem);
  StepUnits units(model, full, wholeMicrobatches(full));
  std::vector<UnitBytes> bytes = unitBytes(units);
  StepLists lists = staticLists(units);
  for (size_t u = 0; u < units.units.size(); ++u)
    lists.variants[u] = static_cast<uint8_t>(units.units[u].variants - 1);
  for (size_t s = 0; s < limits.size(); ++s)
    if (peakBytes(units, bytes, lists, s) > limits[s])
      return false;
  fatten(units, bytes, limits, lists);
  problem.fixed = staticPlanOf(units, lists);
  return true;
}

int64_t addStaticPlan(StepProblem &problem, const std::vector<StepLoads> &samples,
                      const StaticSearchOptions &options) {
  const StepProblem base = problem;
  StepModel model(base);
  StepLoads mean = meanLoads(base, samples), full = loadsAtCaps(base);
  ListSearchTask task{model, mean, full, limitsOf(base), options.mostActions, options.mostLists,
                      false};
  SplitUnits split(task, wholeMicrobatches(mean));
  int64_t best = std::numeric_limits<int64_t>::max();
  auto consider = [&](const StepLists &lists) {
    StepProblem candidate = base;
    candidate.fixed = staticPlanOf(split.units, lists);
    if (!fitStaticPlan(candidate))
      return;
    if (int64_t sum = staticSum(candidate, samples); sum < best) {
      best = sum;
      problem.fixed = std::move(candidate.fixed);
    }
  };
  std::vector<int32_t> natural(base.microbatches);
  std::iota(natural.begin(), natural.end(), 0);
  for (bool isLimited : {false, true})
    for (const FirstList &first : firstLists(base, isLimited))
      if (const TimedLists *made = split.maker.make(first.policy, natural))
        consider(made->lists);
  if (ListSearchResult found = searchLists(task); found.best)
    consider(found.best->lists);
  return best == std::numeric_limits<int64_t>::max() ? staticSum(problem, samples) : best;
}

} // namespace omnibal::planner
