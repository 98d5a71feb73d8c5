//===- RankCandidates.h - The ways to divide ranks into parts, stages and replicas -----------===//
#ifndef RUNTIME_PLANNER_SEARCH_RANKS_RANKCANDIDATES_H
#define RUNTIME_PLANNER_SEARCH_RANKS_RANKCANDIDATES_H

#include "runtime/planner/model/RankDivision.h"
#include <string>

namespace omnibal::planner {

/// Returns every division that leaves no rank idle and gives all replicas equally many
/// micro-batches, with at most `layers` stages; with and without ZeRO-1 where several replicas
/// could divide something, and with replicas as neighbors where that lets them use the link of a
/// node and stages as neighbors would not. Those of fewer parts come first.
std::vector<RankDivision> rankDivisions(const RankLimits &limits, int64_t layers);

/// Returns the cluster of a division: the limit of the first stage for all, and the links as they
/// are, but that of `node` where a node holds all who use them.
Cluster clusterOf(Cluster cluster, const RankDivision &division, const std::optional<Node> &node);

/// What a division plans: `problem` on its cluster, with its micro-batches.
Problem dividedBy(const Problem &problem, const RankDivision &division,
                  const std::optional<Node> &node);

/// Returns a bound on the step of every plan of a division, found without a search. `problem` has
/// no loads of its own, since these are of a step of other micro-batches.
int64_t boundOf(const Problem &problem, const RankDivision &division,
                const std::optional<Node> &node);

/// Returns a bound on the step of every plan of a division under one of these schedules, by a
/// search without limits of memory that does `work` units for each.
int64_t unlimitedBoundOf(const Problem &problem, const RankDivision &division,
                         const std::optional<Node> &node, const std::vector<std::string> &schedules,
                         int64_t work);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_SEARCH_RANKS_RANKCANDIDATES_H
