//===- Communication.cpp
//--------------------------------------------------------------------------------===//
#include "passes/export/Communication.h"

namespace omnibal::exporter {
namespace {

rt::ActionKind convert(schedule::StepKind kind) {
  switch (kind) {
  case schedule::StepKind::Forward:
    return rt::ActionKind::Forward;
  case schedule::StepKind::Backward:
    return rt::ActionKind::Backward;
  case schedule::StepKind::InputGrad:
    return rt::ActionKind::InputGrad;
  case schedule::StepKind::WeightGrad:
    return rt::ActionKind::WeightGrad;
  case schedule::StepKind::PostRecv:
    return rt::ActionKind::PostRecv;
  case schedule::StepKind::WaitRecv:
    return rt::ActionKind::WaitRecv;
  case schedule::StepKind::Send:
    return rt::ActionKind::Send;
  case schedule::StepKind::WaitSend:
    return rt::ActionKind::WaitSend;
  }
  return rt::ActionKind::Forward;
}

} // namespace

std::vector<std::vector<rt::Action>>
insertCommunication(const std::vector<std::vector<planner::Action>> &compute,
                    const std::vector<Message> &messages) {
  std::vector<std::vector<rt::Action>> lists;
  for (const std::vector<schedule::Step> &steps :
       schedule::insertCommunication(compute, messages)) {
    std::vector<rt::Action> &actions = lists.emplace_back();
    for (const schedule::Step &step : steps)
      actions.push_back({convert(step.kind), static_cast<int32_t>(step.microbatch),
                         static_cast<int32_t>(step.index)});
  }
  return lists;
}

} // namespace omnibal::exporter
