//===- ProblemSize.h - Whether a problem's numbers can be added up --------------------------===//
#ifndef RUNTIME_PLANNER_MODEL_PROBLEMSIZE_H
#define RUNTIME_PLANNER_MODEL_PROBLEMSIZE_H

#include "runtime/planner/model/Problem.h"

namespace omnibal::planner {

/// Returns why a problem is too large to be planned, or an empty string. In a problem that passes,
/// all times of all layers, transfers and reductions together, and all sizes together, are at most
/// 2^59, so that no sum of a search or a simulation leaves int64. Memory limits are at most 2^60,
/// and all actions of a plan can be listed.
std::string tooLarge(const Problem &problem);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_MODEL_PROBLEMSIZE_H
