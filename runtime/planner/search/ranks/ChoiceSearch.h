//===- ChoiceSearch.h - The best division of ranks, from costs by parts ----------------------===//
#ifndef RUNTIME_PLANNER_SEARCH_RANKS_CHOICESEARCH_H
#define RUNTIME_PLANNER_SEARCH_RANKS_CHOICESEARCH_H

#include "runtime/planner/model/PlanChoice.h"
#include "runtime/planner/search/Search.h"
#include "runtime/planner/search/ranks/DivisionSearch.h"

namespace omnibal::planner {

struct ChosenPlan {
  Problem problem; ///< of the chosen division
  SearchResult search;
};

/// Plans every division that could be the best (searchDivisions). Where there is only one, `only`
/// limits its search. Without a plan the result has none and `problem` of its search says why.
ChosenPlan searchChoice(const PlanChoice &choice, const SearchOptions &only, RankReport &report);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_SEARCH_RANKS_CHOICESEARCH_H
