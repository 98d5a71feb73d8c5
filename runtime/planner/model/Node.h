//===- Node.h - A machine that several ranks share --------------------------------------------===//
#ifndef RUNTIME_PLANNER_MODEL_NODE_H
#define RUNTIME_PLANNER_MODEL_NODE_H

#include "runtime/planner/model/Problem.h"

namespace omnibal::planner {

/// Ranks with a link of their own among them: those of one machine.
struct Node {
  int64_t ranks = 1;
  Link link;
};

/// Lets the links of a cluster be those of `node` where a node holds all who use them: those of
/// neighboring ranks, which are the stages of a replica or the replicas of a stage, or all.
inline void useNode(Cluster &cluster, const Node &node) {
  const bool holdsAll = cluster.stages * cluster.dataParallel * cluster.parts <= node.ranks;
  const bool byStage = cluster.rankOrder == rt::RankOrder::Stage;
  const int64_t neighbors = byStage ? cluster.stages : cluster.dataParallel;
  const bool holdsNeighbors = holdsAll || node.ranks % (neighbors * cluster.parts) == 0;
  if (byStage ? holdsNeighbors : holdsAll)
    cluster.link = node.link;
  if (byStage ? holdsAll : holdsNeighbors)
    cluster.dataParallelLink = node.link;
}

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_MODEL_NODE_H
