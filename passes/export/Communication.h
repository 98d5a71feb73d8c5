//===- Communication.h - From compute actions to a rank's whole action list
//--------------------------------===//
#ifndef PASSES_EXPORT_COMMUNICATION_H
#define PASSES_EXPORT_COMMUNICATION_H

#include "passes/planner/Plan.h"
#include "runtime/program/Program.h"

namespace omnibal::exporter {

/// One message between two chunks on different stages, the same for every micro-batch.
struct Message {
  int32_t id = 0;
  bool gradient = false;
  int64_t fromChunk = 0, toChunk = 0;
  int64_t fromStage = 0, toStage = 0;
};

/// Puts communication between the compute actions of every stage:
/// * a receive is posted one compute action before the one that needs it, and awaited right before;
/// * a send starts right after the action that produced its data;
/// * a sent activation is awaited before the backward of its micro-batch, which cannot start before
///   the receiver has had it, so that this wait never blocks; where no backward follows, and for
///   gradients, two compute actions later.
/// Every stage derives its part from the same lists, so the order of each pair's messages agrees.
std::vector<std::vector<rt::Action>>
insertCommunication(const std::vector<std::vector<planner::Action>> &compute,
                    const std::vector<Message> &messages);

} // namespace omnibal::exporter
#endif // PASSES_EXPORT_COMMUNICATION_H
