//===- PlanReasons.h - What limits a plan, and what would help ------------------------------===//
#ifndef RUNTIME_PLANNER_SEARCH_PLANREASONS_H
#define RUNTIME_PLANNER_SEARCH_PLANREASONS_H

#include "runtime/planner/evaluate/Simulator.h"
#include <optional>

namespace omnibal::planner {

/// The best of the near places for one cut while the others stay.
struct OtherPlace {
  int64_t layer = 0;             ///< first of the later chunk
  std::optional<int64_t> stepNs; ///< none: no near place fits the memory
};

struct PlanReasons {
  int64_t slowestStage = 0;     ///< the one that idles least
  int64_t tightestStage = -1;   ///< of those that recompute something, least memory left; -1: none
  std::vector<OtherPlace> cuts; ///< by chunk but the first
  /// The step with 1 GB more on the tightest stage, and with one stage more; none if that was not
  /// asked (no stage is tight, no layer is left for it) or was not found in time.
  std::optional<int64_t> moreMemoryNs, moreStagesNs;
};

constexpr int64_t moreMemoryBytes = 1'000'000'000;

/// Searches the neighborhood of a complete plan: `reach` places on either side of each cut, and the
/// problem with more memory and with another stage, a second at most for each of these. `timeline`
/// is the plan's.
PlanReasons explainPlan(const Problem &problem, const Plan &plan, const Timeline &timeline,
                        int64_t reach = 3);

/// Returns one sentence about a chunk of the plan, for people.
std::string describeChunk(const Problem &problem, const Plan &plan, const Timeline &timeline,
                          const PlanReasons &reasons, size_t chunk);
/// Returns what more memory or another stage would gain; empty if nothing is known.
std::string describeResources(const Plan &plan, const PlanReasons &reasons);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_SEARCH_PLANREASONS_H
