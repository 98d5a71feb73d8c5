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

/// Lets the links of a cluster be those of `node` where a node holds all who use them. Ranks are
/// numbered replica by replica, and part by part within a stage, so the ranks of a replica are
/// neighbors.
inline void useNode(Cluster &cluster, const Node &node) {
  if (node.ranks % (cluster.stages * cluster.parts) == 0)
    cluster.link = node.link;
  if (cluster.stages * cluster.dataParallel * cluster.parts <= node.ranks)
    cluster.dataParallelLink = node.link;
}

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_MODEL_NODE_H
