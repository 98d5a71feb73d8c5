//===- Communication.h - From compute actions to a stage's whole action list -------------===//
#ifndef RUNTIME_SCHEDULE_COMMUNICATION_H
#define RUNTIME_SCHEDULE_COMMUNICATION_H

#include "runtime/planner/model/Plan.h"
#include "runtime/program/Program.h"
#include "runtime/schedule/Message.h"

namespace omnibal::rt {

/// Returns which stages wait for each other forever when they run `compute` in order, each action
/// as soon as what `dependencies` bring it has arrived; empty if none do. Dependencies are messages
/// that may also join chunks of one stage; the stages of their ends are not read.
std::string findDeadlock(const std::vector<std::vector<planner::Action>> &compute,
                         const std::vector<Message> &dependencies);

/// Puts communication between the compute actions of every stage, which must be able to finish.
///
/// Every message has one time: when the action that makes its data ends, but not before the end, on
/// the receiver, of the action two before the one that reads it. (Times are those of a run in which
/// every action starts as soon as it can, and a backward takes twice as long as the others.) Both
/// ends start the message before their first action that does not start earlier, receives before
/// sends, so:
///
/// * A stage holds the buffers of at most two actions' messages that it has not begun to read, and
///   a receive is awaited right before the action that reads it.
/// * What a stage starts in one place is one group; transfers of a pair in opposite directions that
///   are made at one time are in one group on both sides.
/// * Each stage can perform its groups one after the other, in the order of its list (program rule
///   p11). For an action waits only for groups whose messages have times up to its start, and a
///   message only for actions that start, and groups whose messages have times, before its own;
///   messages of a group do not wait for each other. And no action waits for what is made later
///   than it starts.
///
/// A sent activation is awaited before the backward of its micro-batch, which cannot start before
/// the receiver has had it; where no backward follows, and for gradients, two compute actions
/// later; in any case an action later than it is started. So the lists finish without any buffering
/// of messages. Every stage derives its part from the same lists, so the order of each pair's
/// messages agrees. The actions' `index` is a chunk or the id of a message.
std::vector<std::vector<Action>>
insertCommunication(const std::vector<std::vector<planner::Action>> &compute,
                    const std::vector<Message> &messages);

} // namespace omnibal::rt
#endif // RUNTIME_SCHEDULE_COMMUNICATION_H
