// The divisions of ranks against an enumeration, their bounds against plans, and the links of nodes
// by hand.
#include "runtime/planner/search/ranks/RankCandidates.h"
#include "runtime/planner/search/Search.h"
#include "test/unit/runtime/planner/RandomProblem.h"
#include <array>
#include <gtest/gtest.h>
#include <set>

using namespace omnibal::planner;
using omnibal::rt::RankOrder;

namespace {

using Numbers = std::array<int64_t, 6>;

/// Whether every stage's replicas are on one node if they are neighbors, and not if stages are,
/// rank by rank.
bool replicasGain(const RankLimits &limits, int64_t parts, int64_t stages, int64_t replicas) {
  if (!limits.node)
    return false;
  auto areTogether = [&](auto rankOf) {
    for (int64_t stage = 0; stage < stages; ++stage)
      for (int64_t replica = 0; replica < replicas; ++replica)
        for (int64_t part = 0; part < parts; ++part)
          if (rankOf(stage, replica, part) / limits.node->ranks !=
              rankOf(stage, 0, 0) / limits.node->ranks)
            return false;
    return true;
  };
  return areTogether([&](int64_t stage, int64_t replica, int64_t part) {
           return (stage * replicas + replica) * parts + part;
         }) &&
         !areTogether([&](int64_t stage, int64_t replica, int64_t part) {
           return (replica * stages + stage) * parts + part;
         });
}

/// Whether parts, stages, replicas and micro-batches of a division are as the limits say.
bool isPossible(const RankLimits &limits, const Numbers &numbers) {
  const auto [parts, stages, replicas, zero, microbatches, order] = numbers;
  const bool isUsual = parts == 1 || parts == 2 || parts == 4 || parts == 8;
  const bool areParts = limits.parts ? *limits.parts == parts
                                     : isUsual && (!limits.node || parts <= limits.node->ranks);
  return areParts && parts * stages * replicas == limits.ranks &&
         microbatches * replicas == limits.groups && (zero == 0 || replicas > 1) &&
         limits.stages.value_or(stages) == stages &&
         limits.replicas.value_or(replicas) == replicas && limits.zero.value_or(zero) == zero &&
         (limits.rankOrder ? static_cast<int64_t>(*limits.rankOrder) == order
                           : order == 0 || replicasGain(limits, parts, stages, replicas));
}

/// Everything that is possible, from the definition and not from divisors.
std::set<Numbers> allDivisions(const RankLimits &limits, int64_t layers) {
  std::set<Numbers> all;
  for (int64_t parts = 1; parts <= limits.ranks; ++parts)
    for (int64_t stages = 1; stages <= layers; ++stages)
      for (int64_t replicas = 1; replicas <= limits.ranks; ++replicas)
        for (int64_t zero = 0; zero <= 1; ++zero)
          for (int64_t order = 0; order <= 1; ++order)
            if (const Numbers numbers = {parts, stages, replicas, zero, limits.groups / replicas,
                                         order};
                isPossible(limits, numbers))
              all.insert(numbers);
  return all;
}

TEST(RankCandidates, AreAllDivisionsThereAre) {
  Draw draw(1);
  int64_t found = 0, ofParts = 0, ofReplicas = 0;
  for (int round = 0; round < 3000; ++round) {
    RankLimits limits;
    limits.ranks = draw(1, 24);
    limits.groups = draw(1, 4) * draw(1, 24);
    if (draw.oneIn(3))
      limits.stages = draw(1, 6);
    if (draw.oneIn(3))
      limits.replicas = draw(1, 6);
    if (draw.oneIn(3))
      limits.zero = draw(0, 1);
    if (draw.oneIn(3))
      limits.node = Node{draw(1, 9), {}};
    if (draw.oneIn(6))
      limits.rankOrder = static_cast<RankOrder>(draw(0, 1));
    if (draw.oneIn(2))
      limits.parts.reset();
    else if (draw.oneIn(2))
      limits.parts = draw(1, 6);
    const int64_t layers = draw(1, 12);
    std::set<Numbers> listed;
    const std::vector<RankDivision> divisions = rankDivisions(limits, layers);
    for (const RankDivision &each : divisions)
      listed.insert({each.parts, each.stages, each.replicas, each.zero, each.microbatches,
                     static_cast<int64_t>(each.rankOrder)});
    EXPECT_EQ(listed.size(), divisions.size()) << "one is listed twice";
    EXPECT_EQ(listed, allDivisions(limits, layers)) << "round " << round;
    found += static_cast<int64_t>(listed.size());
    for (const RankDivision &each : divisions)
      ofParts += each.parts > 1;
    for (const RankDivision &each : divisions)
      ofReplicas += !limits.rankOrder && each.rankOrder == RankOrder::Replica;
  }
  EXPECT_GE(found, 1000);
  EXPECT_GE(ofParts, 500);
  EXPECT_GE(ofReplicas, 50);
}

TEST(RankCandidates, NoPlanOfADivisionIsBelowItsBounds) {
  int64_t compared = 0, ofMemory = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    Problem problem = randomProblem(seed);
    problem.factors.clear();
    if (!problem.cluster.memoryBytes.empty())
      problem.cluster.memoryBytes = {problem.cluster.memoryBytes.front()};
    const auto layers = static_cast<int64_t>(problem.layers.size());
    const std::optional<Node> node =
        seed % 2 ? std::optional(Node{2, {0, 1'000'000'000}}) : std::nullopt;
    for (const RankDivision &division : rankDivisions({4, 8, {}, {}, {}, node, {}}, layers)) {
      Problem divided = problem;
      divided.cluster = clusterOf(problem.cluster, division, node);
      divided.microbatches = division.microbatches;
      const SearchResult found = searchPlan(divided, {10, false});
      if (!found.plan)
        continue;
      ++compared;
      EXPECT_GE(found.plan->stepNs, boundOf(problem, division, node)) << "seed " << seed;
      const int64_t unlimited =
          unlimitedBoundOf(problem, division, node, {problem.schedule}, int64_t{1} << 24);
      EXPECT_GE(found.plan->stepNs, unlimited) << "seed " << seed;
      if (problem.cluster.memoryBytes.empty() && found.provedOptimal)
        EXPECT_EQ(found.plan->stepNs, unlimited) << "seed " << seed;
      ofMemory += found.plan->stepNs > unlimited;
    }
  }
  EXPECT_GE(compared, 200);
  EXPECT_GE(ofMemory, 20) << "no limit of memory costs time";
}

TEST(RankCandidates, ANodesLinkServesThoseItHolds) {
  Cluster cluster;
  cluster.link = cluster.dataParallelLink = {1000, 10};
  cluster.memoryBytes = {7};
  const Node node{4, {10, 1000}};
  struct Case {
    int64_t parts, stages, replicas;
    bool stagesInside, replicasInside;
  };
  auto expect = [&](const Case &each, RankOrder order) {
    SCOPED_TRACE(std::to_string(each.parts) + " x " + std::to_string(each.stages) + " x " +
                 std::to_string(each.replicas) +
                 (order == RankOrder::Replica ? ", replicas as neighbors" : ""));
    const RankDivision division{each.stages, each.replicas, 0, 1, each.parts, order};
    const Cluster divided = clusterOf(cluster, division, node);
    EXPECT_EQ(divided.parts, each.parts);
    EXPECT_EQ(divided.link.latencyNs, each.stagesInside ? 10 : 1000);
    EXPECT_EQ(divided.dataParallelLink.latencyNs, each.replicasInside ? 10 : 1000);
    EXPECT_EQ(divided.memoryBytes, std::vector<int64_t>(each.stages, 7));
    EXPECT_EQ(clusterOf(cluster, division, {}).link.latencyNs, 1000);
  };
  // Nodes of ranks 0-3, 4-7 ..: three stages are ranks 0-2, 3-5 .. of which some are in two nodes.
  for (const Case &each :
       {Case{1, 1, 4, true, true}, Case{1, 2, 2, true, true}, Case{1, 4, 1, true, true},
        Case{1, 2, 4, true, false}, Case{1, 4, 2, true, false}, Case{1, 8, 1, false, false},
        Case{1, 3, 4, false, false}, Case{2, 2, 1, true, true}, Case{2, 2, 2, true, false},
        Case{4, 2, 1, false, false}})
    expect(each, RankOrder::Stage);
  for (const Case &each :
       {Case{1, 1, 4, true, true}, Case{1, 2, 2, true, true}, Case{1, 2, 4, false, true},
        Case{1, 4, 2, false, true}, Case{1, 3, 3, false, false}, Case{1, 8, 2, false, true},
        Case{2, 4, 2, false, true}, Case{2, 2, 4, false, false}, Case{4, 2, 1, false, true}})
    expect(each, RankOrder::Replica);
}

} // namespace
