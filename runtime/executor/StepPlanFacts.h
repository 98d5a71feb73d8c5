//===- StepPlanFacts.h - What the log says of a step's plan --------------------------------===//
#ifndef RUNTIME_EXECUTOR_STEPPLANFACTS_H
#define RUNTIME_EXECUTOR_STEPPLANFACTS_H

#include <algorithm>
#include <cstdint>

namespace omnibal::rt {

/// What is known of a step's plan, for the log.
struct StepPlanFacts {
  bool hasLists = false;  ///< of its own; else the program's lists served it
  double planSeconds = 0; ///< of one core
  double waitSeconds = 0; ///< that this rank waited for the plan
  double predictedSeconds = 0;
  double boundSeconds = 0;  ///< no plan of this layout is shorter
  double staticSeconds = 0; ///< what the program's lists would take
  double recomputed = 0;    ///< what recomputing adds to the step's computing, as a share
  int64_t divided = 0;      ///< micro-batches that run in sub-micro-batches
  int64_t arenaUsed = 0;    ///< bytes of this stage that the plan's blocks reach

  /// Of a step that has several runs.
  void add(const StepPlanFacts &run) {
    const double both = predictedSeconds + run.predictedSeconds;
    if (both > 0)
      recomputed = (recomputed * predictedSeconds + run.recomputed * run.predictedSeconds) / both;
    hasLists |= run.hasLists;
    planSeconds += run.planSeconds;
    waitSeconds += run.waitSeconds;
    predictedSeconds = both;
    boundSeconds += run.boundSeconds;
    staticSeconds += run.staticSeconds;
    divided += run.divided;
    arenaUsed = std::max(arenaUsed, run.arenaUsed);
  }
};

} // namespace omnibal::rt
#endif // RUNTIME_EXECUTOR_STEPPLANFACTS_H
