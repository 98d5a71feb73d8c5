//===- JointCuts.h - Cuts that several training modes share -----------------------------------===//
//
// A program with several training modes has one set of parameters, so all of its modes have the
// same cuts; what is recomputed, the schedule and the number of micro-batches are a mode's own.
//
//===----------------------------------------------------------------------------------------===//
#ifndef RUNTIME_PLANNER_LENGTHS_JOINTCUTS_H
#define RUNTIME_PLANNER_LENGTHS_JOINTCUTS_H

#include "runtime/planner/search/Search.h"
#include <functional>

namespace omnibal::planner {

/// A training mode: its layers' costs at its own caps, its micro-batches and schedule.
struct JointMode {
  Problem problem;
  double steps = 1;                       ///< that an epoch has of the mode
  std::optional<SearchResult> known = {}; ///< with cuts of its own, where that was searched before
};

/// What all modes do with the same cuts.
struct JointPlans {
  std::vector<int64_t> cuts;
  std::vector<SearchResult> modes; ///< with these cuts; no plan: the mode does not fit
  double value = 0;                ///< what was minimized; infinite: it cannot be done
};

struct JointSearch {
  std::vector<SearchResult> alone; ///< each mode with cuts of its own
  std::vector<JointPlans> tried;   ///< the best first; of equal ones the one that was found first;
                                   ///< plans are those of the best five alone
  double boundNs = 0; ///< no cuts take less for `steps` of each mode; modes that never fit are left
                      ///< out
};

struct JointOptions {
  SearchOptions search;
  /// What plans of all modes are worth, less is better; infinite: they are refused. Empty: the sum
  /// over modes of steps x step time, infinite where a mode does not fit.
  std::function<double(const std::vector<SearchResult> &)> value;
  /// So many of the best cuts are tried with one boundary or two neighboring ones moved by a layer,
  /// and then the best one while it gets better; none where a schedule is "auto".
  size_t moved = 3;
  size_t most = 400; ///< cuts that are tried
};

/// Tries each mode's own best cuts, and cuts next to the best; plans every mode with each of them
/// (planWithCuts). All problems have the same layers and stages.
JointSearch searchJointCuts(const std::vector<JointMode> &modes, const JointOptions &options);

/// The plan of a problem with these cuts (searchForLoads), chunk c on stage c mod stages. There is
/// none where its schedule runs another number of chunks.
SearchResult planWithCuts(const Problem &problem, const std::vector<int64_t> &cuts,
                          const SearchOptions &options);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_LENGTHS_JOINTCUTS_H
