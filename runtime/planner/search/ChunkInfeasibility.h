//===- ChunkInfeasibility.h - Why chunks that share a stage do not fit -----------------------===//
#ifndef RUNTIME_PLANNER_SEARCH_CHUNKINFEASIBILITY_H
#define RUNTIME_PLANNER_SEARCH_CHUNKINFEASIBILITY_H

#include "runtime/planner/model/Problem.h"
#include "runtime/planner/model/SearchControl.h"

namespace omnibal::planner {

/// Says for a schedule with several chunks per stage how many bytes more on every stage are enough.
/// Each chunk would fit alone (`explainInfeasible` is empty), but a search has seen that no cuts
/// fit.
std::string explainInfeasibleChunks(const Problem &problem, SearchControl &control);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_SEARCH_CHUNKINFEASIBILITY_H
