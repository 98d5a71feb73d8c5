//===- RandomPlannedStep.h - Random step plans with their messages ----------------------------===//
#ifndef TEST_UNIT_RUNTIME_SCHEDULE_RANDOMPLANNEDSTEP_H
#define TEST_UNIT_RUNTIME_SCHEDULE_RANDOMPLANNEDSTEP_H

#include "runtime/planner/step/StepSearch.h"
#include "runtime/program/verify/VerifyLists.h"
#include "runtime/schedule/StepPlans.h"
#include "test/unit/runtime/planner/step/RandomStepProblem.h"
#include <memory>

namespace omnibal::rt {

using ActionLists = std::vector<std::vector<Action>>;

/// A plan of a random problem's step, whose lists are the step's own.
struct RandomPlannedStep {
  RandomPlannedStep(planner::StepCase random, planner::StepPlan made)
      : problem(std::move(random.problem)), loads(std::move(random.loads)), plan(std::move(made)),
        messages(messagesOf(problem)), model(problem), units(model, loads, plan.borders),
        lists(planner::listsOf(units, plan)),
        times(plannedTimes(units, lists, *planner::timesOf(units, lists))) {}

  /// None where the static plan is the best, or nothing goes from stage to stage.
  static std::unique_ptr<RandomPlannedStep> make(uint64_t seed) {
    planner::StepCaseKind kind{.mostStages = 4, .mostMicrobatches = 5, .mostChunks = 6};
    kind.hasParts = seed % 2 == 0;
    planner::StepCase random = planner::randomStepCase(seed, kind);
    // Some functions take no time, so that actions start together.
    for (size_t c = seed % 3; c < random.problem.chunks.size() && seed % 5 < 2; c += 2)
      for (planner::StepVariant &variant : random.problem.chunks[c].variants)
        variant.times[seed % 4] = variant.times[(seed + 1) % 4] = {};
    planner::StepPlan plan = planner::StepPlanner(random.problem, {2000, 20}).plan(random.loads);
    if (plan.method == planner::StepMethod::Static || messagesOf(random.problem).empty())
      return nullptr;
    return std::make_unique<RandomPlannedStep>(std::move(random), std::move(plan));
  }

  planner::StepProblem problem;
  planner::StepLoads loads;
  planner::StepPlan plan;
  std::vector<Message> messages;
  planner::StepModel model;
  planner::StepUnits units;
  planner::StepLists lists;
  ActionTimes times;
};

/// Lists as the verifier takes them.
inline std::vector<StageActions> stageActionsOf(const RandomPlannedStep &step,
                                                const ActionLists &lists) {
  std::vector<StageActions> stages;
  for (const std::vector<Action> &list : lists) {
    StageActions &stage = stages.emplace_back();
    stage.actions = list;
    for (const Message &message : step.messages)
      stage.transfers.push_back({message.id, static_cast<int32_t>(message.fromStage),
                                 static_cast<int32_t>(message.toStage)});
  }
  return stages;
}

} // namespace omnibal::rt
#endif // TEST_UNIT_RUNTIME_SCHEDULE_RANDOMPLANNEDSTEP_H
