#include "runtime/planner/search/Search.h"
#include "runtime/planner/evaluate/Simulator.h"
#include "runtime/planner/model/ProblemSize.h"
#include "runtime/planner/model/ScheduleRules.h"
#include "runtime/planner/search/AutoSearch.h"
#include "runtime/planner/search/ChunkInfeasibility.h"
#include "runtime/planner/search/Infeasible.h"
#include "runtime/planner/search/QuickPlan.h"
#include "runtime/planner/search/bounds/WorkBound.h"

namespace omnibal::planner {
namespace {

Plan planOf(const PlanningModel &model, SearchOutcome &found) {
  Plan plan;
  plan.cuts = std::move(found.cuts);
  plan.schedule = model.problem.schedule;
  plan.actions = std::move(found.lists.actions);
  plan.chunkStage = std::move(found.lists.chunkStage);
  for (int64_t l = 0; l < model.layers; ++l)
    plan.remat.push_back(model.loads[0].remat[l][found.options[l]].name);
  return plan;
}

/// The search has its own clock; what it found must mean the same to the simulator.
std::string verify(const Problem &problem, const Timeline &timeline, int64_t stepNs) {
  if (!timeline.error.empty())
    return "internal error: the plan found is not valid: " + timeline.error;
  if (timeline.stepNs != stepNs)
    return "internal error: the plan found takes " + std::to_string(timeline.stepNs) +
           " ns and not " + std::to_string(stepNs);
  for (size_t r = 0; r < timeline.stages.size(); ++r)
    if (!problem.cluster.memoryBytes.empty() &&
        timeline.stages[r].peakBytes > timeline.stages[r].limitBytes)
      return "internal error: the plan found exceeds the memory of stage " + std::to_string(r);
  return "";
}

} // namespace

double SearchResult::gap() const {
  if (!plan || plan->stepNs <= lowerBoundNs)
    return 0;
  return static_cast<double>(plan->stepNs - lowerBoundNs) /
         static_cast<double>(lowerBoundNs > 0 ? lowerBoundNs : 1);
}

PlanSearch SearchResult::facts() const {
  return {lowerBoundNs, gap(), seconds, method, provedOptimal, stoppedByTime, {}};
}

SearchResult searchPlan(const Problem &problem, const SearchOptions &options) {
  SearchResult result;
  SearchControl control(options.seconds, options.work);
  bool any = problem.schedule == "auto";
  std::optional<int64_t> chunks = any ? 1 : chunksPerStage(problem.schedule);
  if (!chunks) {
    result.problem =
        "the schedule '" + problem.schedule + "' is not one of " + scheduleNames + ", auto";
    return result;
  }
  if (result.problem = tooLarge(problem); !result.problem.empty())
    return result; // sums below would leave int64
  PlanningModel model(problem);
  if (model.stages * *chunks > model.layers) {
    result.problem = options.explains ? explainInfeasible(model, options.seconds)
                                      : "there are fewer layers than chunks";
    return result;
  }
  bool nothingFits = false;
  std::optional<SearchOutcome> found =
      any ? searchAuto(model, control) : searchFixed(model, control, options.effort, &nothingFits);
  result.seconds = control.elapsed();
  result.stoppedByTime = control.stoppedByTime();
  if (!found && (result.stoppedByTime || control.stoppedByWork()))
    if (std::optional<Plan> quick = quickPlan(problem)) {
      result.lowerBoundNs = workBound(model);
      result.method = "simple rules";
      result.plan = std::move(quick);
      return result;
    }
  if (!found && !options.explains) {
    result.problem = "no plan was found";
    return result;
  }
  if (!found) {
    result.problem = explainInfeasible(model, std::max(1.0, control.secondsLeft()));
    if (!result.problem.empty())
      return result;
    if (nothingFits && *chunks > 1)
      result.problem = explainInfeasibleChunks(problem, control);
    else if (result.stoppedByTime)
      result.problem = noPlanInTime;
    else
      result.problem = noPlanFound;
    return result;
  }
  Plan plan = planOf(model, *found);
  Timeline timeline = simulate(problem, plan);
  result.problem = verify(problem, timeline, found->stepNs);
  if (!result.problem.empty())
    return result;
  plan.stepNs = timeline.stepNs;
  plan.stages = timeline.stages;
  result.lowerBoundNs = found->boundNs;
  result.provedOptimal = found->boundNs == plan.stepNs;
  result.method = found->method;
  result.plan = std::move(plan);
  return result;
}

std::string completePlan(const Problem &problem, Plan &plan, const SearchOptions &options) {
  if (plan.schedule.empty())
    plan.schedule = problem.schedule;
  auto chunks = static_cast<int64_t>(plan.cuts.size()) - 1;
  if (plan.chunkStage.empty())
    plan.chunkStage = stagesInTurn(chunks, problem.cluster.stages);
  bool order = plan.actions.empty(), own = order && plan.schedule == "auto";
  if (order && !own) {
    auto actions = scheduleActions(plan.schedule, problem.cluster.stages, problem.microbatches);
    if (!actions)
      return "`actions` are missing, and '" + plan.schedule +
             "' is no schedule to derive them from";
    plan.actions = *actions;
  }
  std::optional<int64_t> perStage = chunksPerStage(plan.schedule);
  if ((!plan.remat.empty() && !own) || (perStage && chunks != problem.cluster.stages * *perStage) ||
      plan.cuts.back() != static_cast<int64_t>(problem.layers.size()))
    return "";
  for (int64_t c = 0; c < chunks; ++c)
    if (plan.cuts[c] >= plan.cuts[c + 1])
      return std::string(own ? "`actions` are" : "`remat` is") +
             " missing and cannot be chosen, because chunk " + std::to_string(c) + " is empty";
  Problem fixed = problem;
  fixed.schedule = plan.schedule;
  fixed.varyCuts = false;
  fixed.givenCuts = plan.cuts;
  if (!plan.remat.empty()) {
    if (plan.remat.size() != problem.layers.size())
      return "`remat` has " + std::to_string(plan.remat.size()) + " entries for " +
             std::to_string(problem.layers.size()) + " layers";
    for (size_t l = 0; l < plan.remat.size(); ++l)
      if (!problem.layers[l].option(plan.remat[l]))
        return "`remat`: layer " + problem.layers[l].name + " has no option " + plan.remat[l];
    fixed.varyRemat = false;
    fixed.givenRemat = plan.remat;
  }
  SearchResult result = searchPlan(fixed, options);
  if (!result.plan)
    return result.problem;
  plan.remat = result.plan->remat;
  if (own) {
    plan.chunkStage = result.plan->chunkStage;
    plan.actions = result.plan->actions;
  }
  return "";
}

} // namespace omnibal::planner
