//===- LoadedSearch.h - Plans for the loads of data that hold full micro-batches ------------===//
#ifndef RUNTIME_PLANNER_SEARCH_LOADEDSEARCH_H
#define RUNTIME_PLANNER_SEARCH_LOADEDSEARCH_H

#include "runtime/planner/search/Search.h"

namespace omnibal::planner {

/// Does searchPlan() with times of the problem's loads and memory of full micro-batches: cuts and
/// lists are searched for the loads and recompute what full micro-batches need; where that differs,
/// what is searched for full micro-batches counts, too, and the shorter one with the loads is
/// taken. The bound is that of the loads. The plan's times are those of the loads.
SearchResult searchForLoads(const Problem &problem, const SearchOptions &options);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_SEARCH_LOADEDSEARCH_H
