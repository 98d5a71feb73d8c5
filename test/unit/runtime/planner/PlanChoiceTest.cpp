// Choices of a division: against the plans of all divisions one by one, and as files.
#include "runtime/planner/evaluate/VerifyPlan.h"
#include "runtime/planner/json/ChoiceJson.h"
#include "runtime/planner/search/ranks/ChoiceSearch.h"
#include "test/unit/runtime/planner/RandomProblem.h"
#include <gtest/gtest.h>
#include <set>

using namespace omnibal::planner;

namespace {

/// The same layers on more ranks: not a k-th of everything, so that no number of parts always wins.
Problem dividedBy(Problem problem, int64_t parts, Draw &draw) {
  const int64_t efficiency = draw(60, 105);
  auto divide = [&](int64_t &value) { value = value * 100 / (parts * efficiency); };
  for (Layer &layer : problem.layers) {
    for (int64_t *value : {&layer.forwardNs, &layer.inputGradNs, &layer.weightGradNs,
                           &layer.paramBytes, &layer.gradBytes, &layer.updateBytes})
      divide(*value);
    layer.stateBytes = std::min(layer.stateBytes, layer.paramBytes);
    for (RematOption &option : layer.remat)
      divide(option.savedBytes);
  }
  return problem;
}

/// Of another way to divide them: faster, but with more in memory.
Problem atPrice(Problem problem, Draw &draw) {
  for (Layer &layer : problem.layers) {
    layer.forwardNs = layer.forwardNs * draw(70, 100) / 100;
    for (RematOption &option : layer.remat)
      option.savedBytes = option.savedBytes * draw(100, 250) / 100;
  }
  return problem;
}

PlanChoice randomChoice(uint64_t seed) {
  Draw draw(seed + 5'000'011);
  PlanChoice choice;
  Problem problem = randomProblem(seed);
  problem.factors.clear();
  choice.cluster.link = problem.cluster.link;
  choice.cluster.dataParallelLink = problem.cluster.dataParallelLink;
  if (!problem.cluster.memoryBytes.empty())
    choice.cluster.memoryBytes = {problem.cluster.memoryBytes.front()};
  for (Layer &layer : problem.layers)
    layer.stateBytes = draw(0, layer.paramBytes);
  choice.limits.ranks = draw(1, 3) * 2;
  choice.limits.groups = choice.limits.ranks * draw(1, 2);
  choice.limits.parts.reset();
  choice.limits.anyParts = {1, 2};
  if (draw.oneIn(3))
    choice.limits.node = Node{2, {0, 1'000'000'000}};
  if (draw.oneIn(5))
    choice.limits.zero = draw(0, 1);
  if (draw.oneIn(8))
    choice.limits.parts = 2;
  if (draw.oneIn(8))
    choice.limits.stages = draw(1, 2);
  if (draw.oneIn(8))
    choice.limits.replicas = draw(1, 2);
  if (draw.oneIn(8))
    choice.limits.rankOrder = static_cast<omnibal::rt::RankOrder>(draw(0, 1));
  choice.schedule = draw.oneIn(4) ? "gpipe" : "1f1b";
  for (int64_t parts : {1, 2})
    choice.costs.push_back({parts, {}, {}, dividedBy(problem, parts, draw)});
  if (draw.oneIn(2))
    choice.costs.push_back({2, 0.5, {}, atPrice(choice.costs[1].problem, draw)});
  if (draw.oneIn(2))
    choice.costs.push_back({2, {}, 2, atPrice(choice.costs[1].problem, draw)});
  for (PartsCosts &costs : choice.costs) { // what a file of a choice says of a problem
    costs.problem.cluster = {};
    costs.problem.microbatches = 1;
    costs.problem.schedule = "1f1b";
    costs.problem.varyRemat = true;
    costs.problem.givenRemat.clear();
  }
  return choice;
}

/// All costs that may serve a division, by their definition.
std::vector<const Problem *> servingCosts(const PlanChoice &choice, const RankDivision &division) {
  std::set<std::optional<double>> prices;
  for (const PartsCosts &each : choice.costs)
    prices.insert(each.layoutPrice);
  std::vector<const Problem *> serving;
  for (const std::optional<double> &price : prices) {
    const Problem *general = nullptr, *ofReplicas = nullptr;
    for (const PartsCosts &each : choice.costs)
      if (each.parts == division.parts && each.layoutPrice == price) {
        if (!each.zeroReplicas)
          general = &each.problem;
        else if (division.zero && *each.zeroReplicas == division.replicas)
          ofReplicas = &each.problem;
      }
    if (ofReplicas || general)
      serving.push_back(ofReplicas ? ofReplicas : general);
  }
  return serving;
}

struct Best {
  std::optional<int64_t> stepNs;
  std::set<int64_t> parts; ///< of the divisions that reach it
};

Best bestOneByOne(const PlanChoice &choice) {
  Best best;
  const auto layers = static_cast<int64_t>(choice.costs[0].problem.layers.size());
  for (const RankDivision &division : rankDivisions(choice.limits, layers))
    for (const Problem *costs : servingCosts(choice, division)) {
      Problem problem = *costs;
      problem.cluster = clusterOf(choice.cluster, division, choice.limits.node);
      problem.microbatches = division.microbatches;
      problem.schedule = choice.schedule;
      const SearchResult found = searchPlan(problem, {30, false});
      EXPECT_FALSE(found.stoppedByTime);
      if (!found.plan || (best.stepNs && *best.stepNs < found.plan->stepNs))
        continue;
      if (best.stepNs != found.plan->stepNs)
        best = {found.plan->stepNs, {}};
      best.parts.insert(division.parts);
    }
  return best;
}

TEST(PlanChoice, IsTheBestOfAllDivisions) {
  int64_t infeasible = 0, priced = 0;
  std::set<int64_t> parts, stages;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const PlanChoice choice = randomChoice(seed);
    RankReport report;
    const ChosenPlan chosen = searchChoice(choice, {}, report);
    const Best best = bestOneByOne(choice);
    ASSERT_EQ(chosen.search.plan.has_value(), best.stepNs.has_value());
    if (!chosen.search.plan) {
      EXPECT_FALSE(chosen.search.problem.empty());
      ++infeasible;
      continue;
    }
    EXPECT_EQ(chosen.search.plan->stepNs, *best.stepNs);
    EXPECT_EQ(report.chosen().stepNs, best.stepNs);
    EXPECT_LE(report.boundNs, *best.stepNs);
    EXPECT_TRUE(best.parts.contains(report.chosen().division.parts));
    EXPECT_EQ(verifyPlan(chosen.problem, *chosen.search.plan, {}).size(), 0);
    const Cluster &cluster = chosen.problem.cluster;
    EXPECT_EQ(cluster.stages * cluster.dataParallel * cluster.parts, choice.limits.ranks);
    EXPECT_EQ(chosen.problem.microbatches * cluster.dataParallel, choice.limits.groups);
    parts.insert(cluster.parts);
    stages.insert(cluster.stages);
    priced += report.chosen().layoutPrice.has_value();
  }
  EXPECT_GE(infeasible, 3);
  EXPECT_GE(priced, 5);
  EXPECT_EQ(parts.size(), 2);
  EXPECT_GE(stages.size(), 3);
}

TEST(PlanChoice, AScheduleBySearchIsNoWorseThanANamedOne) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    PlanChoice choice = randomChoice(seed);
    int64_t least = std::numeric_limits<int64_t>::max();
    RankReport report;
    for (const char *schedule : {"1f1b", "zb-h1"}) {
      choice.schedule = schedule;
      if (const ChosenPlan named = searchChoice(choice, {}, report); named.search.plan)
        least = std::min(least, named.search.plan->stepNs);
    }
    choice.schedule = "auto";
    if (const ChosenPlan searched = searchChoice(choice, {}, report); searched.search.plan)
      EXPECT_LE(searched.search.plan->stepNs, least) << "seed " << seed;
    else
      EXPECT_EQ(least, std::numeric_limits<int64_t>::max()) << "seed " << seed;
  }
}

TEST(ChoiceJson, WrittenChoicesAreReadBack) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const PlanChoice choice = randomChoice(seed);
    const std::string text = writeChoice(choice);
    auto read = parseChoice(text, "c.json");
    ASSERT_TRUE(static_cast<bool>(read)) << read.status().message();
    EXPECT_EQ(writeChoice(*read), text) << "seed " << seed;
    EXPECT_EQ(read->limits.anyParts, choice.limits.anyParts);
    EXPECT_EQ(read->limits.parts, choice.limits.parts);
    EXPECT_EQ(read->limits.stages, choice.limits.stages);
    EXPECT_EQ(read->limits.replicas, choice.limits.replicas);
    EXPECT_EQ(read->limits.zero, choice.limits.zero);
    EXPECT_EQ(read->limits.rankOrder, choice.limits.rankOrder);
    RankReport report, again;
    EXPECT_EQ(searchChoice(choice, {}, report).search.plan.has_value(),
              searchChoice(*read, {}, again).search.plan.has_value());
    EXPECT_EQ(report.boundNs, again.boundNs) << "seed " << seed;
  }
}

/// A valid choice with `from` replaced by `to`.
std::string errorOf(const std::string &from, const std::string &to) {
  const std::string costs = R"(
      "layers": [{"name": "a", "kind": "language", "forward_ns": 1, "input_grad_ns": 2, "weight_grad_ns": 3,
        "param_bytes": 4, "grad_bytes": 5,
        "remat": [{"name": "keep", "saved_bytes": 6, "recompute_ns": 0, "workspace_bytes": 7}]}],
      "edges": []})";
  std::string text =
      R"({"schema": "omnibal.plan-choice/1", "ranks": 4, "groups": 8, "schedule": "auto",
    "cluster": {"memory_bytes": 100, "link": {"latency_ns": 5, "bytes_per_s": 25e9},
                "node": {"ranks": 2, "latency_ns": 1, "bytes_per_s": 1e11}},
    "costs": [{"parts": 1,)" +
      costs + R"(, {"parts": 2,)" + costs + "]}";
  if (!from.empty()) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  }
  auto choice = parseChoice(text, "c.json");
  return choice ? "" : choice.status().message();
}

/// A step of so many micro-batches that one replica could not plan them is none of a division of
/// fewer.
TEST(PlanChoice, ADivisionThatIsTooLargeProvesNothing) {
  PlanChoice choice = randomChoice(0);
  choice.limits = RankLimits();
  choice.limits.ranks = 4;
  choice.limits.groups = int64_t{1} << 26;
  choice.cluster.memoryBytes.clear();
  RankReport report;
  const ChosenPlan chosen = searchChoice(choice, {}, report);
  EXPECT_FALSE(chosen.search.plan.has_value());
  for (const RankCandidate &each : report.candidates) {
    EXPECT_FALSE(each.isInfeasible);
    EXPECT_NE(each.ruledOut.find("10000000"), std::string::npos) << each.ruledOut;
  }
  EXPECT_FALSE(report.candidates.empty());
}

TEST(ChoiceJson, WhatIsWrongIsSaid) {
  EXPECT_EQ(errorOf("", ""), "");
  EXPECT_EQ(errorOf("\"groups\"", R"("stages": 2, "zero": 1, "rank_order": "replica", "groups")"),
            "");
  struct Case {
    const char *from, *to, *says;
  };
  for (const Case &each : {
           Case{"plan-choice/1", "plan-choice/2", "`schema` is omnibal.plan-choice/2"},
           Case{"\"ranks\": 4", "\"ranks\": 0", "c.json: `ranks` must be from 1 to"},
           Case{"\"ranks\": 4, ", "", "c.json: `ranks` is missing"},
           Case{"\"groups\": 8", "\"groups\": 1e300", "`groups` must be an integer"},
           Case{"\"groups\"", "\"zero\": 2, \"groups\"", "`zero` must be from 0 to 1"},
           Case{"\"groups\"", "\"rank_order\": \"x\", \"groups\"", "stage or replica"},
           Case{"\"groups\"", "\"color\": 1, \"groups\"", "unknown key `color`"},
           Case{"\"auto\"", "\"best\"", "unknown `schedule` best"},
           Case{"\"cluster\": {", "\"cluster\": {\"stages\": 2, ", "cluster: unknown key `stages`"},
           Case{"\"ranks\": 2, ", "", "cluster.node: `ranks` is missing"},
           Case{"\"memory_bytes\": 100", "\"memory_bytes\": [1, 2]", "cluster: `memory_bytes`"},
           Case{"{\"parts\": 2,", "{\"parts\": 1,", "two `costs` are for 1 parts"},
           Case{"{\"parts\": 2,", "{\"parts\": 2, \"layout_price\": 0,", "without `layout_price`"},
           Case{"{\"parts\": 2,", "{\"parts\": 1, \"layout_price\": -1,",
                "costs[1]: `layout_price`"},
           Case{"{\"parts\": 2,", "{\"parts\": 2, \"layout_price\": 1e999,", "number overflow"},
           Case{"\"node\"", "\"data_parallel\": {\"size\": 2}, \"node\"", "unknown key `size`"},
           Case{"{\"parts\": 2,", "{\"parts\": 1, \"zero_replicas\": 0,",
                "`zero_replicas` must be"},
           Case{"{\"parts\": 2,", "{", "costs[1]: `parts` is missing"},
           Case{"\"forward_ns\": 1", "\"forward_ns\": -1", "costs[0].layers[0]: `forward_ns`"},
           Case{"\"forward_ns\": 1", "\"forward_ns\": 9000000000000000000", "costs[0]: "},
           Case{"\"edges\": []", "\"edges\": [{}]", "costs[0].edges[0]"},
       })
    EXPECT_NE(errorOf(each.from, each.to).find(each.says), std::string::npos)
        << each.to << " says " << errorOf(each.from, each.to);
}

} // namespace
