//===- StepText.h - The plan of a step as text for people --------------------------------===//
#ifndef RUNTIME_SCHEDULE_STEPTEXT_H
#define RUNTIME_SCHEDULE_STEPTEXT_H

#include "runtime/schedule/StepPlans.h"
#include <string>

namespace omnibal::rt {

/// What the words of textOf mean, in a few lines.
std::string stepTextKey();

/// The step's loads, what was predicted, and for every stage its memory and its actions with their
/// times and messages, in lines of at most 100 columns. A static plan has no messages: its lists
/// are those of its program.
std::string textOf(const planner::StepProblem &problem, const planner::StepLoads &loads,
                   const PlannedStep &planned, const std::vector<Message> &messages);

} // namespace omnibal::rt
#endif // RUNTIME_SCHEDULE_STEPTEXT_H
