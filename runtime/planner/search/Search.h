//===- Search.h - From a problem to the best plan, with a bound -----------------------------===//
#ifndef RUNTIME_PLANNER_SEARCH_SEARCH_H
#define RUNTIME_PLANNER_SEARCH_SEARCH_H

#include "runtime/planner/json/PlanJson.h"
#include "runtime/planner/model/Problem.h"
#include "runtime/planner/model/SearchControl.h"
#include <optional>

namespace omnibal::planner {

struct SearchOptions {
  double seconds = 10;      ///< time limit; every other limit counts work
  bool explains = true;     ///< says in detail why there is no plan, which takes a while
  int64_t work = INT64_MAX; ///< units of work (SearchControl) at most, the same on every machine
  Effort effort = Effort::Proof; ///< for a named schedule
};

/// What `SearchResult::problem` says where there may be a plan all the same.
inline constexpr char noPlanInTime[] = "no plan was found within the time limit; allow more time";
inline constexpr char noPlanFound[] =
    "no plan was found, though each layer fits a stage; give the stages more memory, or cuts to "
    "begin with (`given`)";

struct SearchResult {
  /// The plan, timed by the simulator; none if no plan fits, or none was found in time.
  std::optional<Plan> plan;
  /// Says why there is no plan: what does not fit, where, by how many bytes, and what would help.
  std::string problem;
  int64_t lowerBoundNs = 0; ///< no valid plan of the problem takes less
  bool provedOptimal = false;
  bool stoppedByTime = false;
  double seconds = 0;
  std::string method;

  /// (step - bound) / bound.
  double gap() const;
  /// Returns what the plan's file says about the search.
  PlanSearch facts() const;
};

/// Returns the best cuts, options and, for the schedule "auto", action lists. There is no plan for
/// a problem whose numbers cannot be added up (ProblemSize.h), wherever it comes from. The same
/// problem gives the same plan on any machine unless the time limit stopped the search.
SearchResult searchPlan(const Problem &problem, const SearchOptions &options);

/// Fills in what a plan by hand leaves open: chunk stages and actions by the schedule, options by
/// the search with the plan's cuts. Returns why that is not possible, or an empty string.
std::string completePlan(const Problem &problem, Plan &plan, const SearchOptions &options = {});

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_SEARCH_SEARCH_H
