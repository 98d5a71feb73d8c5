//===- Infeasible.h - Why nothing fits ------------------------------------------------------===//
#ifndef RUNTIME_PLANNER_SEARCH_INFEASIBLE_H
#define RUNTIME_PLANNER_SEARCH_INFEASIBLE_H

#include "runtime/planner/model/PlanningModel.h"
#include <string>

namespace omnibal::planner {

/// Returns true if all layers together need more than all stages have, so that no plan of a search
/// fits, whatever its schedule and its chunks: its lists run a micro-batch backward on a stage's
/// last chunk while all of the stage's chunks hold what they saved of it. (Lists by hand may do
/// without that where chunks give each other no gradients.)
bool exceedsAllMemory(const PlanningModel &model);

/// Returns an empty string if some cuts fit when every layer keeps as little as it can. Otherwise
/// it returns the proof: the stage and the layer for which no place is left, the bytes that are
/// missing there, and how many bytes per stage, or how many stages, would be enough. After
/// `seconds` it leaves out the latter, or is empty.
std::string explainInfeasible(const PlanningModel &model, double seconds);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_SEARCH_INFEASIBLE_H
