//===- ActionKinds.h - What a chunk computes, in plans and in programs --------------------===//
#ifndef RUNTIME_SCHEDULE_ACTIONKINDS_H
#define RUNTIME_SCHEDULE_ACTIONKINDS_H

#include "runtime/planner/model/Plan.h"
#include "runtime/program/Program.h"
#include <array>

namespace omnibal::rt {

/// Each kind of computing action as a program names it, in the order of planner::ActionKind.
inline constexpr std::array computingKinds{ActionKind::Forward, ActionKind::Backward,
                                           ActionKind::InputGrad, ActionKind::WeightGrad};

/// The kind in programs of a plan's kind.
constexpr ActionKind programKind(planner::ActionKind kind) {
  return computingKinds[static_cast<size_t>(kind)];
}

/// The kind in plans of a program's kind, which must be a computing one.
constexpr planner::ActionKind plannedKind(ActionKind kind) {
  size_t place = 0;
  while (computingKinds[place] != kind)
    ++place;
  return static_cast<planner::ActionKind>(place);
}

static_assert(programKind(planner::ActionKind::Forward) == ActionKind::Forward &&
              programKind(planner::ActionKind::Backward) == ActionKind::Backward &&
              programKind(planner::ActionKind::InputGrad) == ActionKind::InputGrad &&
              programKind(planner::ActionKind::WeightGrad) == ActionKind::WeightGrad);

} // namespace omnibal::rt
#endif // RUNTIME_SCHEDULE_ACTIONKINDS_H
