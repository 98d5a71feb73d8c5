//===- StepTimes.cpp ---------------------------------------------------------------------===//
#include "runtime/planner/step/StepTimes.h"
#include <algorithm>

namespace omnibal::planner {
namespace {

class ListRun {
public:
  ListRun(const StepUnits &units, const StepLists &lists)
      : units(units), lists(lists), forwardEnd(units.units.size(), -1),
        backwardEnd(units.units.size(), -1), next(lists.actions.size()),
        clock(lists.actions.size()) {}

  std::optional<StepTimes> run() {
    for (const auto &list : lists.actions)
      times.starts.emplace_back(list.size());
    for (size_t s = 0; s < lists.actions.size(); ++s)
      waiting.push_back(s);
    while (!waiting.empty()) {
      size_t stage = waiting.back();
      waiting.pop_back();
      advance(stage);
    }
    for (size_t s = 0; s < lists.actions.size(); ++s) {
      if (next[s] < lists.actions[s].size())
        return std::nullopt;
      times.stepNs = std::max(times.stepNs, clock[s]);
    }
    return std::move(times);
  }

private:
  /// Latest arrival of what `needs` name; -1 where one has not run yet.
  static int64_t arrival(std::span<const Need> needs, const std::vector<int64_t> &ends) {
    int64_t latest = 0;
    for (const Need &need : needs) {
      if (ends[need.unit] < 0)
        return -1;
      latest = std::max(latest, ends[need.unit] + need.delayNs);
    }
    return latest;
  }

  int64_t readyAt(const UnitAction &action) const {
    if (action.kind == ActionKind::Forward)
      return arrival(units.forwardNeeds(action.unit), forwardEnd);
    if (action.kind == ActionKind::WeightGrad)
      return backwardEnd[action.unit];
    return forwardEnd[action.unit] < 0 ? -1
                                       : arrival(units.backwardNeeds(action.unit), backwardEnd);
  }

  /// Runs a stage until it must wait for another one.
  void advance(size_t stage) {
    const std::vector<UnitAction> &list = lists.actions[stage];
    for (; next[stage] < list.size(); ++next[stage]) {
      const UnitAction &action = list[next[stage]];
      int64_t ready = readyAt(action);
      if (ready < 0)
        return;
      int64_t start = std::max(ready, clock[stage]);
      times.starts[stage][next[stage]] = start;
      clock[stage] = start + units.duration(action.unit, lists.variants[action.unit], action.kind);
      if (action.kind == ActionKind::WeightGrad)
        continue;
      bool forward = action.kind == ActionKind::Forward;
      (forward ? forwardEnd : backwardEnd)[action.unit] = clock[stage];
      for (const Need &fed :
           forward ? units.forwardFeeds(action.unit) : units.backwardFeeds(action.unit))
        wake(units.units[fed.unit].stage, stage);
    }
  }

  void wake(int32_t stage, size_t running) {
    if (static_cast<size_t>(stage) != running &&
        std::find(waiting.begin(), waiting.end(), static_cast<size_t>(stage)) == waiting.end())
      waiting.push_back(stage);
  }

  const StepUnits &units;
  const StepLists &lists;
  StepTimes times;
  std::vector<int64_t> forwardEnd, backwardEnd; ///< by unit; -1: not yet
  std::vector<size_t> next;                     ///< by stage
  std::vector<int64_t> clock;                   ///< by stage
  std::vector<size_t> waiting;                  ///< stages that may be able to go on
};

} // namespace

std::vector<ListPlaces> listPlaces(const StepUnits &units, const StepLists &lists) {
  std::vector<ListPlaces> places(units.units.size());
  for (const std::vector<UnitAction> &list : lists.actions)
    for (size_t i = 0; i < list.size(); ++i) {
      ListPlaces &at = places[list[i].unit];
      (list[i].kind == ActionKind::Forward      ? at.forward
       : list[i].kind == ActionKind::WeightGrad ? at.weightGrad
                                                : at.backward) = static_cast<int32_t>(i);
    }
  return places;
}

std::optional<StepTimes> timesOf(const StepUnits &units, const StepLists &lists) {
  return ListRun(units, lists).run();
}

std::vector<std::vector<int64_t>> endsOf(const StepUnits &units, const StepLists &lists,
                                         const StepTimes &times) {
  std::vector<std::vector<int64_t>> ends = times.starts;
  for (size_t s = 0; s < lists.actions.size(); ++s)
    for (size_t k = 0; k < lists.actions[s].size(); ++k) {
      const UnitAction &action = lists.actions[s][k];
      ends[s][k] += units.duration(action.unit, lists.variants[action.unit], action.kind);
    }
  return ends;
}

std::vector<std::vector<StepAction>> actionsOf(const StepUnits &units, const StepLists &lists) {
  std::vector<std::vector<StepAction>> actions;
  for (const std::vector<UnitAction> &list : lists.actions) {
    std::vector<StepAction> &stage = actions.emplace_back();
    for (const UnitAction &action : list)
      stage.push_back(units.action(action.kind, action.unit));
  }
  return actions;
}

StepLists listsOf(const StepUnits &units, const StepPlan &plan) {
  StepLists lists;
  for (const Unit &unit : units.units)
    lists.variants.push_back(
        static_cast<uint8_t>(plan.variants[unit.chunk][unit.microbatch][unit.part]));
  for (const std::vector<StepAction> &stage : plan.actions) {
    std::vector<UnitAction> &list = lists.actions.emplace_back();
    for (const StepAction &action : stage)
      list.push_back({action.kind, units.unitOf(action)});
  }
  return lists;
}

StepLists staticLists(const StepUnits &units) {
  const StaticPlan &fixed = units.model.problem.fixed;
  StepLists lists{{}, std::vector<uint8_t>(units.units.size())};
  for (size_t u = 0; u < units.units.size(); ++u)
    lists.variants[u] =
        static_cast<uint8_t>(fixed.variants[units.units[u].chunk][units.units[u].microbatch]);
  for (const std::vector<StepAction> &stage : fixed.actions) {
    std::vector<UnitAction> &list = lists.actions.emplace_back();
    for (const StepAction &action : stage)
      if (auto [unit, end] = units.unitsOf(action.chunk, action.microbatch); unit < end)
        list.push_back({action.kind, unit});
  }
  return lists;
}

} // namespace omnibal::planner
