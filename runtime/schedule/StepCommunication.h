//===- StepCommunication.h - The messages of a step plan's lists --------------------------===//
#ifndef RUNTIME_SCHEDULE_STEPCOMMUNICATION_H
#define RUNTIME_SCHEDULE_STEPCOMMUNICATION_H

#include "runtime/planner/step/StepTimes.h"
#include "runtime/program/Program.h"
#include "runtime/schedule/Message.h"

namespace omnibal::rt {

/// When the actions of lists start and end, in nanoseconds and in the form of the lists.
struct ActionTimes {
  std::vector<std::vector<int64_t>> starts, ends;
};

/// The times of lists that can finish.
ActionTimes plannedTimes(const planner::StepUnits &units, const planner::StepLists &lists,
                         const planner::StepTimes &times);

/// How a transport performs the messages of a rank.
enum class TransportOrder {
  OneQueue, ///< one after the other, in the order in which they are started (NCCL)
  Any       ///< each as soon as both ends have started it (threads, MPI, TCP)
};

/// Puts messages between the actions of a step plan with whole micro-batches (every part is 0).
/// `times` are those of a run of the lists: an action starts when the one before it and the makers
/// of what it reads have ended, or later. A message exists for the micro-batches that have both its
/// maker and its reader. The actions' `index` is a chunk or the id of a message.
///
/// Let m be the action that makes a message's data, r the one that reads them, and p the one before
/// r in the receiver's list. The message has the time T = max(end of m, start of p), or the end of
/// m where r is the receiver's first action. Both ends start it before their first action that does
/// not start before T. The receiver awaits it right before r, the sender before its first action
/// that starts after r does. What stands in one gap between actions is in the order of these times,
/// at one time receives, sends, then waits for sends, then by id and micro-batch; waits for
/// receives come last.
///
/// Actions that take no time may start together. Among them time goes on in an order in which lists
/// and messages let them run: "time" below means a moment of this order, so that no two actions of
/// a list and no action and its input are at one time.
///
/// Memory. A received block of a plan lives from p, and its receive is started when the action
/// before p is over, because T is not before p. A sent block lives to the sender's last action that
/// does not start later than r, and the send is over before the next one. What that one receives
/// into the same place has a later time than r, so it is started after the wait. So nothing is
/// overwritten that is on its way.
///
/// No deadlock. Every list is in the order of time, where waits for receives have the time of their
/// action. m ends and p starts before r, so T is before r, and what waits for a message, at r or
/// later, waits for something earlier. By induction over time everything is reached, though a send
/// completes only with its receive (rule p8). On one queue (rule p11) a group is what a stage
/// starts without an action or a wait between: all of one time are one group, since only waits for
/// sends come after them in the gap. A group begins when what stands before it is over, which is
/// earlier than its first message; a message moves when the groups at both ends have begun, of
/// which it need not be the first; a wait for a group is not earlier than the group's last message.
/// So by the same induction all messages of a time move once everything before it has happened.
/// Both ends of a pair start its messages in the order of times, ids and micro-batches.
///
/// Any order. T may lie in the middle of an action of one end, which then starts the message only
/// after it, and the reader waits. Where the order does not matter, the sender starts a message as
/// soon as m has ended and the receiver right before p, so that it moves while they compute. Memory
/// and rule p8 are as above: m and p are before r, and nothing waits for a start that is later than
/// itself. Rule p11 does not hold.
std::vector<std::vector<Action>>
insertCommunication(const std::vector<std::vector<planner::StepAction>> &compute,
                    const ActionTimes &times, const std::vector<Message> &messages,
                    TransportOrder order = TransportOrder::OneQueue);

} // namespace omnibal::rt
#endif // RUNTIME_SCHEDULE_STEPCOMMUNICATION_H
