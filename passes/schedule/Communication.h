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

/// Empty, or which ranks wait for each other for ever when they run `compute` in order, each action
/// as soon as what `dependencies` bring it is there. Dependencies are messages that may also join
/// chunks of one rank; the ranks of their ends are not read.
std::string findDeadlock(const std::vector<std::vector<planner::Action>> &compute,
                         const std::vector<Message> &dependencies);

/// Puts communication between the compute actions of every stage; these must be able to finish.
///
/// * A receive is posted one compute action before the one that needs it, and awaited right before.
///   So a rank holds the buffers of at most two actions' messages that it has not begun to read.
/// * A send starts right after the action that produced its data, next to the receives that are
///   posted there: transfers of a pair in opposite directions start together.
/// * A sent activation is awaited before the backward of its micro-batch, which cannot start before
///   the receiver has had it; where no backward follows, and for gradients, two compute actions
///   later. If the receiver has not posted by then, the wait moves on to where it has.
///
/// "By then" is in one order of all stages' compute actions that respects what they depend on: by
/// the length of the longest chain of actions before each, then by rank. Every wait comes after
/// what it waits for in that order, so the lists finish without any buffering of messages. Every
/// stage derives its part from the same lists, so the order of each pair's messages agrees.
std::vector<std::vector<Step>>
insertCommunication(const std::vector<std::vector<planner::Action>> &compute,
                    const std::vector<Message> &messages);

} // namespace omnibal::schedule
#endif // PASSES_SCHEDULE_COMMUNICATION_H
