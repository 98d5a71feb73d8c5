//===- Communication.h - From compute actions to a rank's whole action list
//--------------------------------===//
#ifndef PASSES_EXPORT_COMMUNICATION_H
#define PASSES_EXPORT_COMMUNICATION_H

#include "passes/planner/Plan.h"
#include "passes/schedule/Communication.h"
#include "runtime/program/Program.h"

namespace omnibal::exporter {

using schedule::Message;

/// schedule::insertCommunication in the program's terms.
std::vector<std::vector<rt::Action>>
insertCommunication(const std::vector<std::vector<planner::Action>> &compute,
                    const std::vector<Message> &messages);

} // namespace omnibal::exporter
#endif // PASSES_EXPORT_COMMUNICATION_H
