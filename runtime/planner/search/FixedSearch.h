//===- FixedSearch.h - The best plan of one named schedule ------------------------------------===//
#ifndef RUNTIME_PLANNER_SEARCH_FIXEDSEARCH_H
#define RUNTIME_PLANNER_SEARCH_FIXEDSEARCH_H

#include "runtime/planner/model/SearchControl.h"
#include "runtime/planner/search/orders/ActionOrder.h"
#include <optional>

namespace omnibal::planner {

/// The result of a search of either kind.
struct SearchOutcome {
  std::vector<int64_t> cuts;
  std::vector<int> options; ///< by layer
  ActionLists lists;
  int64_t stepNs = unreachable;
  int64_t boundNs = 0; ///< of the plans that the search was over
  std::string method;
};

/// The action lists of the model's schedule; chunk c is on stage c mod stages.
ActionLists listsOf(const PlanningModel &model);

/// Searches for the model's schedule, which must be a named one with enough layers for its chunks.
/// The result is none if no plan was found; `nothingFits` then says whether there is none.
std::optional<SearchOutcome> searchFixed(const PlanningModel &model, SearchControl &control,
                                         Effort effort, bool *nothingFits = nullptr);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_SEARCH_FIXEDSEARCH_H
