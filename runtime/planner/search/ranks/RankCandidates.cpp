#include "runtime/planner/search/ranks/RankCandidates.h"
#include "runtime/planner/model/ProblemSize.h"
#include "runtime/planner/search/Search.h"
#include "runtime/planner/search/bounds/WorkBound.h"
#include <algorithm>
#include <limits>

namespace omnibal::planner {
namespace {

bool allows(const std::optional<int64_t> &given, int64_t value) {
  return !given || *given == value;
}

std::vector<int64_t> partsOf(const RankLimits &limits) {
  if (limits.parts)
    return {*limits.parts};
  std::vector<int64_t> held;
  for (int64_t parts : limits.anyParts)
    if (!limits.node || parts <= limits.node->ranks)
      held.push_back(parts);
  return held;
}

/// Stages as neighbors serve as well where a node holds all ranks, or one kind has no neighbors.
std::vector<rt::RankOrder> ordersOf(const RankLimits &limits, const RankDivision &division) {
  if (limits.rankOrder)
    return {*limits.rankOrder};
  std::vector<rt::RankOrder> orders = {rt::RankOrder::Stage};
  if (limits.node && division.stages > 1 && division.replicas > 1 &&
      limits.node->ranks < limits.ranks &&
      limits.node->ranks % (division.replicas * division.parts) == 0)
    orders.push_back(rt::RankOrder::Replica);
  return orders;
}

void addDivisions(const RankLimits &limits, int64_t layers, int64_t parts,
                  std::vector<RankDivision> &to) {
  const int64_t teams = limits.ranks / parts; // of ranks that run a stage together
  for (int64_t stages = 1; stages <= std::min(teams, layers); ++stages) {
    if (teams % stages != 0)
      continue;
    const int64_t replicas = teams / stages;
    if (limits.groups % replicas != 0 || !allows(limits.stages, stages) ||
        !allows(limits.replicas, replicas))
      continue;
    for (int64_t zero = 0; zero <= (replicas > 1 ? 1 : 0); ++zero)
      if (allows(limits.zero, zero)) {
        RankDivision division{stages, replicas, zero, limits.groups / replicas, parts};
        for (rt::RankOrder order : ordersOf(limits, division)) {
          division.rankOrder = order;
          to.push_back(division);
        }
      }
  }
}

} // namespace

std::vector<RankDivision> rankDivisions(const RankLimits &limits, int64_t layers) {
  std::vector<RankDivision> result;
  for (int64_t parts : partsOf(limits))
    if (limits.ranks % parts == 0)
      addDivisions(limits, layers, parts, result);
  return result;
}

Cluster clusterOf(Cluster cluster, const RankDivision &division, const std::optional<Node> &node) {
  cluster.stages = division.stages;
  cluster.dataParallel = division.replicas;
  cluster.zero = division.zero;
  cluster.parts = division.parts;
  cluster.rankOrder = division.rankOrder;
  if (!cluster.memoryBytes.empty())
    cluster.memoryBytes.assign(division.stages, cluster.memoryBytes.front());
  if (node)
    useNode(cluster, *node);
  return cluster;
}

Problem dividedBy(const Problem &problem, const RankDivision &division,
                  const std::optional<Node> &node) {
  Problem divided = problem;
  divided.cluster = clusterOf(problem.cluster, division, node);
  divided.microbatches = division.microbatches;
  return divided;
}

int64_t boundOf(const Problem &problem, const RankDivision &division,
                const std::optional<Node> &node) {
  const Problem divided = dividedBy(problem, division, node);
  return tooLarge(divided).empty() ? workBound(PlanningModel(divided)) : 0;
}

int64_t unlimitedBoundOf(const Problem &problem, const RankDivision &division,
                         const std::optional<Node> &node, const std::vector<std::string> &schedules,
                         int64_t work) {
  Problem unlimited = dividedBy(problem, division, node);
  unlimited.cluster.memoryBytes.clear();
  SearchOptions options;
  options.explains = false;
  options.work = work;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const std::string &schedule : schedules) {
    unlimited.schedule = schedule;
    least = std::min(least, searchPlan(unlimited, options).lowerBoundNs);
  }
  return least;
}

} // namespace omnibal::planner
