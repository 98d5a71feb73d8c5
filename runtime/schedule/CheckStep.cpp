//===- CheckStep.cpp ---------------------------------------------------------------------===//
#include "runtime/planner/step/CheckStepPlan.h"
#include "runtime/program/verify/VerifyLists.h"
#include "runtime/schedule/ActionKinds.h"
#include "runtime/schedule/StepPlans.h"

namespace omnibal::rt {
namespace {

Status defect(int64_t step, const std::string &what) {
  return {Code::Internal, "the plan of step " + std::to_string(step) + ": " + what};
}

/// Without their messages the lists are those of the plan.
Status checkComputing(int64_t step, const PlannedStep &planned) {
  if (planned.lists.size() != planned.plan.actions.size())
    return defect(step, "it has lists of " + std::to_string(planned.lists.size()) +
                            " stages, not of " + std::to_string(planned.plan.actions.size()));
  for (size_t s = 0; s < planned.lists.size(); ++s) {
    const std::vector<planner::StepAction> &compute = planned.plan.actions[s];
    size_t k = 0;
    for (const Action &action : planned.lists[s]) {
      if (action.kind > ActionKind::WeightGrad)
        continue;
      if (k == compute.size() || action.kind != programKind(compute[k].kind) ||
          action.index != compute[k].chunk ||
          action.unit() != Unit{compute[k].microbatch, compute[k].part})
        return defect(step, "stage " + std::to_string(s) + ": computing action " +
                                std::to_string(k) + " is another one with messages than without");
      ++k;
    }
    if (k < compute.size())
      return defect(step, "stage " + std::to_string(s) + ": computing actions are missing");
  }
  return Status::ok();
}

} // namespace

Status checkStep(const planner::StepProblem &problem, const planner::StepLoads &loads,
                 const PlannedStep &planned, const std::vector<Message> &messages,
                 TransportOrder order) {
  auto violations = planner::checkStepPlan(problem, loads, planned.plan);
  if (!violations.empty())
    return defect(loads.step, violations[0].message());
  if (planned.plan.method == planner::StepMethod::Static)
    return Status::ok();
  OMNIBAL_RETURN_IF_ERROR(checkComputing(loads.step, planned));
  std::vector<TransferEnds> transfers;
  for (const Message &message : messages) {
    if (transfers.size() <= static_cast<size_t>(message.id))
      transfers.resize(message.id + 1);
    transfers[message.id] = {message.id, static_cast<int32_t>(message.fromStage),
                             static_cast<int32_t>(message.toStage)};
  }
  std::vector<StageActions> stages;
  for (const std::vector<Action> &list : planned.lists)
    stages.push_back({list, transfers, {}});
  for (auto verify : {verifyEnds, verifyRendezvous, verifyOneQueue}) {
    if (verify == verifyOneQueue && order == TransportOrder::Any)
      continue;
    if (Status status = verify(stages, "lists"); !status)
      return defect(loads.step, status.message());
  }
  return Status::ok();
}

} // namespace omnibal::rt
