// Epochs of several modes against all partitions of few samples.
#include "runtime/batching/lengths/EpochPlan.h"
#include "runtime/batching/lengths/GroupsFile.h"
#include "runtime/batching/rows/Random.h"
#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>

namespace omnibal::rt {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

struct Case {
  SampleLengths lengths;
  LengthGroups modes;
};

Case randomCase(Random &random) {
  Case c;
  int64_t samples = 3 + static_cast<int64_t>(random.below(4));
  bool tiles = random.below(2) == 1;
  for (int64_t i = 0; i < samples; ++i) {
    c.lengths.tiles.push_back(tiles ? static_cast<int32_t>(random.below(6)) : 0);
    c.lengths.tokens.push_back(1 + static_cast<int32_t>(random.below(40)));
  }
  c.modes.replicas = 2;
  c.modes.stages = 1 + static_cast<int32_t>(random.below(2));
  c.modes.tokensPerStep = 1;
  int64_t modes = 1 + static_cast<int64_t>(random.below(3)), cap = 12;
  for (int64_t m = 0; m < modes; ++m) {
    LengthGroup g;
    g.name = std::to_string(m);
    cap += 8 + static_cast<int64_t>(random.below(20));
    g.tokensCap = m + 1 == modes ? std::max<int64_t>(cap, 40) : cap;
    g.tilesCap = m + 1 == modes ? 6 : 3 + static_cast<int64_t>(random.below(4));
    g.degree = random.below(2) == 1 ? 2 : 1;
    g.ranks = 2 / g.degree;
    g.microbatches = 1 + static_cast<int64_t>(random.below(3));
    g.cost = {random.uniform() * 3, 1 + random.uniform(), random.uniform() * 0.05,
              random.uniform() * 40, random.uniform() * 20};
    c.modes.groups.push_back(g);
  }
  return c;
}

/// The least time of rows and steps for groups of these costs: sorted, then cut (no other rows or
/// steps are faster).
double timeOf(const LengthGroup &g, int32_t stages, std::vector<double> costs) {
  std::sort(costs.rbegin(), costs.rend());
  double time = 0;
  size_t perStep = static_cast<size_t>(g.ranks) * static_cast<size_t>(g.microbatches);
  for (size_t i = 0; i < costs.size(); i += static_cast<size_t>(g.ranks)) {
    double row = g.cost.microbatchNs + costs[i];
    time += row + (i % perStep == 0 ? (stages - 1) * row + g.cost.stepNs : 0);
  }
  return time;
}

/// All set partitions, with all modes for each set.
class AllEpochs {
public:
  explicit AllEpochs(const Case &c) : c(c), costs(c.modes.groups.size()) {}
  double least() {
    place(0);
    return best;
  }

private:
  void place(int64_t sample) {
    if (sample == c.lengths.size())
      return assign(0);
    for (size_t g = 0; g <= sets.size(); ++g) {
      if (g == sets.size())
        sets.emplace_back();
      sets[g].push_back(sample);
      place(sample + 1);
      sets[g].pop_back();
      if (sets[g].empty()) {
        sets.pop_back();
        break;
      }
    }
  }
  void assign(size_t set) {
    if (set == sets.size()) {
      double time = 0;
      for (size_t m = 0; m < costs.size(); ++m)
        time += timeOf(c.modes.groups[m], c.modes.stages, costs[m]);
      best = std::min(best, time);
      return;
    }
    for (size_t m = 0; m < costs.size(); ++m) {
      const LengthGroup &g = c.modes.groups[m];
      double tiles = 0, tokens = 0, cost = 0;
      for (int64_t s : sets[set]) {
        tiles += c.lengths.tiles[s];
        tokens += c.lengths.tokens[s];
        cost += g.costOf(c.lengths.tiles[s], c.lengths.tokens[s]);
      }
      if (tiles > static_cast<double>(g.tilesCap) || tokens > static_cast<double>(g.tokensCap))
        continue;
      costs[m].push_back(cost);
      assign(set + 1);
      costs[m].pop_back();
    }
  }
  const Case &c;
  std::vector<std::vector<int64_t>> sets;
  std::vector<std::vector<double>> costs;
  double best = never;
};

TEST(LengthGroups, BoundOptimumAndOursInOrder) {
  Random random(7);
  double sum = 0, worst = 0;
  constexpr int cases = 2000;
  for (int i = 0; i < cases; ++i) {
    Case c = randomCase(random);
    PlanOptions options;
    options.epoch.seed = static_cast<uint64_t>(i);
    auto plan = planEpoch(c.lengths, c.modes, options);
    ASSERT_TRUE(plan) << plan.status().message();
    double least = AllEpochs(c).least();
    ASSERT_LE(plan->boundAllNs, least * (1 + 1e-9)) << "case " << i;
    ASSERT_GE(plan->facts.epochNs, least * (1 - 1e-9)) << "case " << i;
    sum += plan->facts.epochNs / least;
    worst = std::max(worst, plan->facts.epochNs / least);
  }
  RecordProperty("mean", std::to_string(sum / cases));
  std::printf("ours / optimum: mean %.4f, worst %.4f\n", sum / cases, worst);
  EXPECT_LE(sum / cases, 1.03);
  EXPECT_LE(worst, 1.45);
}

TEST(LengthGroups, TheJudgeSeesWhatIsWrong) {
  Random random(3);
  Case c = randomCase(random);
  auto plan = planEpoch(c.lengths, c.modes, {});
  ASSERT_TRUE(plan);
  auto refused = [&](const std::function<void(GroupedEpoch &)> &change, const char *rule) {
    GroupedEpoch epoch = plan->epoch;
    change(epoch);
    auto facts = judgeEpoch(c.lengths, plan->groups, epoch);
    ASSERT_FALSE(facts);
    EXPECT_NE(facts.status().message().find(rule), std::string::npos) << facts.status().message();
  };
  refused([](GroupedEpoch &e) { e.samples[0] = e.samples[1]; }, "g1");
  refused([](GroupedEpoch &e) { e.samples.back() = 99; }, "g1");
  refused([](GroupedEpoch &e) { e.modeOf[0] = 77; }, "g2");
  refused([](GroupedEpoch &e) { e.stepOf[0] = 5; }, "g3");
  LengthGroups small = plan->groups;
  for (LengthGroup &g : small.groups)
    g.tokensCap = 1;
  EXPECT_FALSE(judgeEpoch(c.lengths, small, plan->epoch));
}

TEST(LengthGroups, FileReadsAsWritten) {
  Random random(5);
  Case c = randomCase(random);
  std::string text = describe(c.modes).dump();
  auto again = parseLengthGroups(text, "x");
  ASSERT_TRUE(again) << again.status().message();
  EXPECT_EQ(describe(*again).dump(), text);
}

} // namespace
} // namespace omnibal::rt
