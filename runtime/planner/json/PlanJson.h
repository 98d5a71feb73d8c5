//===- PlanJson.h - Plans as JSON -----------------------------------------------------------===//
#ifndef RUNTIME_PLANNER_JSON_PLANJSON_H
#define RUNTIME_PLANNER_JSON_PLANJSON_H

#include "runtime/planner/model/Plan.h"
#include "runtime/support/Status.h"
#include <optional>
#include <string_view>

namespace omnibal::planner {

/// What a plan file says of itself besides its decisions.
struct PlanClaims {
  std::optional<int64_t> stepNs, lowerBoundNs;
  std::optional<double> gap;
  std::vector<StageFigures> stages; ///< empty if the file has none
};

/// What a search adds to a plan's file.
struct PlanSearch {
  int64_t lowerBoundNs = 0;
  double gap = 0, seconds = 0;
  std::string method;
  bool provedOptimal = false, stoppedByTime = false;
  /// Steps of other ways to plan, by name; none: no plan.
  std::vector<std::pair<std::string, std::optional<int64_t>>> baselines;
};

/// Reads a plan written by hand or by the search: `cuts` is required; `remat`, `schedule`,
/// `chunk_stage` and `actions` are used where present (empty otherwise). `path` is for messages,
/// which name the file and the key. Unknown keys are errors.
rt::Result<Plan> readPlan(const std::string &path, PlanClaims *claims = nullptr);

/// The same from text; `where` stands for the file in messages.
rt::Result<Plan> parsePlan(std::string_view text, const std::string &where,
                           PlanClaims *claims = nullptr);

/// The plan in the form of docs/planner.md, all keys, newline at the end.
std::string writePlan(const Plan &plan, const PlanSearch &search);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_JSON_PLANJSON_H
