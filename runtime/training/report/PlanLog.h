//===- PlanLog.h - What a run tells of the plans of its steps ------------------------------===//
#ifndef RUNTIME_TRAINING_REPORT_PLANLOG_H
#define RUNTIME_TRAINING_REPORT_PLANLOG_H

#include "runtime/executor/StepPlanFacts.h"
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace omnibal::rt {

/// Collects plans and the times of their steps.
class PlanLog {
public:
  /// Adds the plan's fields to the step's line.
  static void write(const StepPlanFacts &plan, nlohmann::ordered_json &line);
  /// Counts a step whose pipeline took so long.
  void add(const StepPlanFacts &plan, double pipelineSeconds);
  /// One sentence about all steps counted; empty where there were none.
  std::string summary() const;

private:
  std::vector<double> errors; ///< by step: predicted time over measured time, apart from 1
  double predicted = 0, fixed = 0, waited = 0, measured = 0;
  int64_t withoutLists = 0;
};

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_REPORT_PLANLOG_H
