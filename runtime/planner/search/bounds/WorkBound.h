//===- WorkBound.h - What some stage must do in any plan -------------------------------------===//
#ifndef RUNTIME_PLANNER_SEARCH_BOUNDS_WORKBOUND_H
#define RUNTIME_PLANNER_SEARCH_BOUNDS_WORKBOUND_H

#include "runtime/planner/model/PlanningModel.h"

namespace omnibal::planner {

/// Returns a bound on the step of every plan, whatever its cuts, chunks, options and action lists:
/// however layers are distributed, some stage does at least this much in a step, or the path of one
/// micro-batch there and back takes that long. `emptied` are stages that are known to do nothing.
int64_t workBound(const PlanningModel &model, int64_t emptied = 0);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_SEARCH_BOUNDS_WORKBOUND_H
