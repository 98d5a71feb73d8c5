#include "runtime/planner/search/PlanReasons.h"
#include "runtime/planner/model/ScheduleRules.h"
#include "runtime/planner/search/Search.h"
#include "runtime/support/NumberText.h"

namespace omnibal::planner {
using rt::fixed;
using rt::milliseconds;
namespace {

constexpr double secondsForPlan = 1;

/// The step of the best plan of a changed problem.
std::optional<int64_t> bestStep(const Problem &problem) {
  SearchResult found = searchPlan(problem, {secondsForPlan});
  if (!found.plan)
    return std::nullopt;
  return found.plan->stepNs;
}

OtherPlace findOtherPlace(const Problem &problem, const Plan &plan, size_t cut, int64_t reach) {
  OtherPlace best;
  for (int64_t distance = 1; distance <= reach; ++distance)
    for (int64_t place : {plan.cuts[cut] - distance, plan.cuts[cut] + distance}) {
      if (place <= plan.cuts[cut - 1] || place >= plan.cuts[cut + 1])
        continue;
      Problem moved = problem;
      moved.schedule = plan.schedule;
      moved.varyCuts = false;
      moved.givenCuts = plan.cuts;
      moved.givenCuts[cut] = place;
      std::optional<int64_t> step = bestStep(moved);
      if (best.layer == 0 || (step && (!best.stepNs || *step < *best.stepNs)))
        best = {place, step};
    }
  return best;
}

std::string timeText(int64_t ns) {
  return ns < 100'000 ? std::to_string(ns) + " ns" : milliseconds(ns, 2) + " ms";
}

/// "1.20 % slower", in relation to the plan's step.
std::string change(int64_t from, int64_t to) {
  if (from == to || from == 0)
    return "as fast";
  double percent = 100 * (static_cast<double>(to) / static_cast<double>(from) - 1);
  return fixed(std::abs(percent), 2) + (percent > 0 ? " % slower" : " % faster");
}

} // namespace

PlanReasons explainPlan(const Problem &problem, const Plan &plan, const Timeline &timeline,
                        int64_t reach) {
  PlanReasons reasons;
  std::vector<int64_t> limits = problem.cluster.memoryBytes;
  if (!limits.empty())
    limits.resize(problem.cluster.stages, limits.front());
  for (size_t r = 0; r < timeline.stages.size(); ++r) {
    const StageFigures &stage = timeline.stages[r];
    if (stage.idleNs < timeline.stages[reasons.slowestStage].idleNs)
      reasons.slowestStage = static_cast<int64_t>(r);
    if (limits.empty() || stage.recomputeNs == 0)
      continue;
    auto left = [&](int64_t at) { return limits[at] - timeline.stages[at].peakBytes; };
    if (reasons.tightestStage < 0 || left(static_cast<int64_t>(r)) < left(reasons.tightestStage))
      reasons.tightestStage = static_cast<int64_t>(r);
  }
  for (size_t cut = 1; cut + 1 < plan.cuts.size(); ++cut)
    reasons.cuts.push_back(findOtherPlace(problem, plan, cut, reach));
  if (reasons.tightestStage >= 0) {
    Problem more = problem;
    more.cluster.memoryBytes = limits;
    more.cluster.memoryBytes[reasons.tightestStage] += moreMemoryBytes;
    reasons.moreMemoryNs = bestStep(more);
  }
  int64_t chunks = chunksPerStage(problem.schedule).value_or(1) * (problem.cluster.stages + 1);
  if (problem.varyCuts && chunks <= static_cast<int64_t>(problem.layers.size())) {
    Problem more = problem;
    ++more.cluster.stages;
    more.cluster.memoryBytes = limits;
    if (!limits.empty())
      more.cluster.memoryBytes.push_back(limits.back());
    reasons.moreStagesNs = bestStep(more);
  }
  return reasons;
}

std::string describeChunk(const Problem &problem, const Plan &plan, const Timeline &timeline,
                          const PlanReasons &reasons, size_t chunk) {
  int64_t stage = plan.chunkStage[chunk];
  const StageFigures &figures = timeline.stages[stage];
  std::string text = "chunk " + std::to_string(chunk) + " begins with " +
                     problem.layers[plan.cuts[chunk]].name + ": ";
  double busy = timeline.stepNs > 0 ? 100 - 100.0 * static_cast<double>(figures.idleNs) /
                                                static_cast<double>(timeline.stepNs)
                                    : 0;
  text += "stage " + std::to_string(stage) + " is busy for " + fixed(busy, 1) + " % of the step";
  text += stage == reasons.slowestStage ? ", the most of all stages" : "";
  if (figures.recomputeNs > 0)
    text += ", and recomputes for " + timeText(figures.recomputeNs) + " because its memory is full";
  if (chunk == 0)
    return text;
  const OtherPlace &other = reasons.cuts[chunk - 1];
  if (other.layer == 0)
    return text + "; this cut has no other place between its neighbors";
  text += "; the next best place of this cut, before " + problem.layers[other.layer].name + ", ";
  if (!other.stepNs)
    return text + "does not fit the memory";
  return text + "takes " + timeText(*other.stepNs) + ", " + change(timeline.stepNs, *other.stepNs);
}

std::string describeResources(const Plan &plan, const PlanReasons &reasons) {
  std::string text;
  auto add = [&](const std::string &what, const std::optional<int64_t> &step) {
    if (step)
      text += (text.empty() ? "" : "; ") + what + " would take " + timeText(*step) + ", " +
              change(plan.stepNs, *step);
  };
  add("1 GB more on stage " + std::to_string(reasons.tightestStage), reasons.moreMemoryNs);
  add("one stage more", reasons.moreStagesNs);
  return text;
}

} // namespace omnibal::planner
