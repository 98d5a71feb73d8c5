//===- StageTable.h - The plan as a table
//------------------------------------------------------------------------===//
#ifndef TOOLS_OMNIBAL_COMPILE_STAGETABLE_H
#define TOOLS_OMNIBAL_COMPILE_STAGETABLE_H

#include "passes/partition/PlanStages.h"
#include "runtime/program/Program.h"

namespace omnibal::compile {

/// One line a stage: layers, parameters, predicted forward and backward time, recomputation, memory
/// that the program will use against the limit, bubble. Memory is the exact size of the arena.
std::string stageTable(const partition::PlannedModule &planned, const rt::Program &program,
                       const std::string &device);

/// "vision.layers.0-11" for consecutive numbered layers.
std::string layerRange(const planner::Problem &problem, int64_t begin, int64_t end);

/// The predicted step as Chrome trace JSON: one process a rank.
std::string predictedTrace(const partition::PlannedModule &planned);

} // namespace omnibal::compile
#endif // TOOLS_OMNIBAL_COMPILE_STAGETABLE_H
