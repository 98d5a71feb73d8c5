//===- StepTimes.h - When the actions of lists run --------------------------------------------===//
#ifndef RUNTIME_PLANNER_STEP_STEPTIMES_H
#define RUNTIME_PLANNER_STEP_STEPTIMES_H

#include "runtime/planner/step/StepUnits.h"
#include "runtime/support/Status.h"

namespace omnibal::planner {

/// An action of a list that is being made.
struct UnitAction {
  ActionKind kind = ActionKind::Forward;
  int32_t unit = 0;
};

/// Lists by stage, and the variant of every unit.
struct StepLists {
  std::vector<std::vector<UnitAction>> actions;
  std::vector<uint8_t> variants; ///< by unit
};

/// Where a unit's actions stand in its stage's list; -1 for those that it does not have.
struct ListPlaces {
  int32_t forward = -1, backward = -1; ///< backward: the whole one or the input gradient
  int32_t weightGrad = -1;
  bool isWhole() const { return weightGrad < 0; }
};

/// The places of every unit, by unit.
std::vector<ListPlaces> listPlaces(const StepUnits &units, const StepLists &lists);

struct StepTimes {
  std::vector<std::vector<int64_t>> starts; ///< as the lists
  int64_t stepNs = 0;
};

/// Runs lists: each stage in order, each action as early as its inputs allow; messages overlap with
/// everything. None where the lists cannot finish. Linear in actions and needs.
std::optional<StepTimes> timesOf(const StepUnits &units, const StepLists &lists);

/// When the actions of lists end that run at these times, as the lists.
std::vector<std::vector<int64_t>> endsOf(const StepUnits &units, const StepLists &lists,
                                         const StepTimes &times);

/// The lists as plans state them.
std::vector<std::vector<StepAction>> actionsOf(const StepUnits &units, const StepLists &lists);

/// The lists of a plan that is made for these units.
StepLists listsOf(const StepUnits &units, const StepPlan &plan);

/// The static plan's lists for a step: without the units that the step does not have.
StepLists staticLists(const StepUnits &units);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_STEP_STEPTIMES_H
