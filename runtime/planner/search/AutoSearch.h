//===- AutoSearch.h - Schedule, chunks, cuts and rematerialization together ------------------===//
#ifndef RUNTIME_PLANNER_SEARCH_AUTOSEARCH_H
#define RUNTIME_PLANNER_SEARCH_AUTOSEARCH_H

#include "runtime/planner/search/FixedSearch.h"

namespace omnibal::planner {

/// Searches for the schedule "auto". The result is never worse than what searchFixed finds for the
/// named schedules with up to `mostChunks` chunks per stage. From their cuts, list scheduling makes
/// tailored action lists, for which cuts and options are then improved, and so on in turn. The
/// bound holds for any action lists (WorkBound.h). The result is none if nothing was found, or if
/// nothing fits (`explainInfeasible`).
std::optional<SearchOutcome> searchAuto(const PlanningModel &model, SearchControl &control);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_SEARCH_AUTOSEARCH_H
