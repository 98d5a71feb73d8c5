//===- Communication.h - From compute actions to a stage's whole action list -------------===//
#ifndef PASSES_SCHEDULE_COMMUNICATION_H
#define PASSES_SCHEDULE_COMMUNICATION_H

#include "passes/planner/Plan.h"
#include "passes/schedule/Messages.h"

namespace omnibal::schedule {

enum class StepKind {
  Forward,
  Backward,
  InputGrad,
  WeightGrad,
  PostRecv,
  WaitRecv,
  Send,
  WaitSend
};

struct Step {
  StepKind kind = StepKind::Forward;
  int64_t microbatch = 0;
  int64_t index = 0; ///< the chunk, or the id of the message
};

/// Puts communication between the compute actions of every stage:
/// * a receive is posted one compute action before the one that needs it, and awaited right before;
/// * a send starts right after the action that produced its data;
/// * a sent activation is awaited before the backward of its micro-batch, which cannot start before
///   the receiver has had it, so that this wait never blocks; where no backward follows, and for
///   gradients, two compute actions later.
/// Every stage derives its part from the same lists, so the order of each pair's messages agrees.
std::vector<std::vector<Step>>
insertCommunication(const std::vector<std::vector<planner::Action>> &compute,
                    const std::vector<Message> &messages);

} // namespace omnibal::schedule
#endif // PASSES_SCHEDULE_COMMUNICATION_H
