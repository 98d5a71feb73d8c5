//===- Crowded.h - Why chunks that share a rank do not fit ------------------------------------===//
#ifndef PASSES_PLANNER_SEARCH_CROWDED_H
#define PASSES_PLANNER_SEARCH_CROWDED_H

#include "passes/planner/Problem.h"
#include "passes/planner/search/SearchControl.h"

namespace omnibal::planner {

/// For a schedule with several chunks a rank, each of which would fit alone (`explainInfeasible` is
/// empty), where a search has seen that no cuts fit: how many bytes more on every rank are enough.
std::string explainCrowded(const Problem &problem, SearchControl &control);

} // namespace omnibal::planner
#endif // PASSES_PLANNER_SEARCH_CROWDED_H
