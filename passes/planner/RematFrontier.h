//===- RematFrontier.h - The two ways to find rematerialisation choices ---------------------===//
#ifndef PASSES_PLANNER_REMATFRONTIER_H
#define PASSES_PLANNER_REMATFRONTIER_H

#include "passes/planner/RematChoices.h"

namespace omnibal::planner {

/// One load: a point is three numbers.
std::unique_ptr<RematChoices> makeRematFrontier(const PlanningModel &model, SearchControl &control);
/// Several loads: saved bytes and recomputation of each.
std::unique_ptr<RematChoices> makeLoadFrontier(const PlanningModel &model, SearchControl &control);

} // namespace omnibal::planner
#endif // PASSES_PLANNER_REMATFRONTIER_H
