// The search against the exhaustive solver on small random problems, and what it says where nothing
// fits.
#include "passes/planner/Search.h"
#include "passes/planner/Exhaustive.h"
#include "passes/planner/Simulator.h"
#include <gtest/gtest.h>
#include <random>

using namespace omnibal::planner;

namespace {

class Draw {
public:
  explicit Draw(uint64_t seed) : engine(seed) {}
  int64_t operator()(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine() % static_cast<uint64_t>(high - low + 1));
  }
  bool oneIn(int64_t n) { return (*this)(1, n) == 1; }

private:
  std::mt19937_64 engine;
};

/// Up to 7 layers of two kinds on up to 4 stages: equal or uneven layers, frozen fronts, skip
/// edges, sources beside the chain, slow links, mixed memory, factors, data parallel, gpipe.
Problem randomProblem(uint64_t seed) {
  Draw draw(seed);
  Problem p;
  int64_t layers = draw(2, 7), vision = draw(0, layers - 1);
  bool uneven = draw.oneIn(2), frozen = draw.oneIn(4), source = vision >= 2 && draw.oneIn(3);
  bool slow = draw.oneIn(3);
  int64_t base[2] = {draw(10, 1000), draw(10, 1000)};
  p.cluster.stages = draw(1, std::min<int64_t>(4, layers));
  p.microbatches = draw(1, 7);
  auto vary = [&](int64_t x) { return uneven ? x * draw(80, 120) / 100 : x; };
  for (int64_t i = 0; i < layers; ++i) {
    int kind = i < vision ? 0 : 1;
    bool still = frozen && kind == 0;
    Layer layer;
    layer.name = "layer" + std::to_string(i);
    layer.kind = kind ? "language" : "vision";
    layer.forwardNs = vary(base[kind]);
    layer.inputGradNs = still ? 0 : vary(base[kind] * 11 / 10);
    layer.weightGradNs = still ? 0 : vary(base[kind] * 9 / 10);
    layer.paramBytes = draw(0, 100);
    layer.gradBytes = draw(0, 50);
    int64_t keep = still ? 0 : vary(base[kind]);
    layer.remat.push_back({"keep", keep, 0, draw(0, 60)});
    if (!still && !draw.oneIn(5)) {
      layer.remat.push_back({"selective", keep / 2, layer.forwardNs / 5, draw(0, 120)});
      layer.remat.push_back({"full", keep / 20, layer.forwardNs, draw(0, 300)});
    }
    p.layers.push_back(layer);
  }
  auto edge = [&](int64_t from, int64_t to) {
    int64_t bytes = draw.oneIn(10) ? 0 : draw(1, 60);
    bool returns = !(frozen && from < vision) && !draw.oneIn(10);
    p.edges.push_back({from, to, bytes, returns ? bytes : 0});
  };
  for (int64_t i = 0; i + 1 < layers; ++i)
    if (!source || i + 1 != vision - 1)
      edge(i, i + 1);
    else
      edge(i, i + 2); // the layer between has no input
  for (int64_t a = draw(0, layers - 1), b = draw(0, layers - 1); a < b; b = a)
    edge(a, b);
  p.cluster.link = {slow ? draw(0, 200) : draw(0, 5), slow ? 100'000'000 : 1'000'000'000};
  p.cluster.dataParallel = draw.oneIn(3) ? 4 : 1;
  p.cluster.dataParallelLink = {draw(0, 20), draw(1, 10) * 100'000'000};
  int64_t saved = 0, params = 0;
  for (const Layer &layer : p.layers) {
    saved += layer.remat[0].savedBytes;
    params += layer.paramBytes;
  }
  int64_t stages = p.cluster.stages;
  int64_t memory =
      (saved * std::min(p.microbatches, stages) + params) / stages * draw(40, 160) / 100 +
      draw(0, 200);
  if (!draw.oneIn(4))
    for (int64_t r = 0, count = draw.oneIn(3) ? stages : 1; r < count; ++r)
      p.cluster.memoryBytes.push_back(count == 1 ? memory : memory * draw(70, 130) / 100);
  if (draw.oneIn(4))
    p.schedule = "gpipe";
  if (draw.oneIn(3))
    for (int64_t m = 0; m < p.microbatches; ++m)
      p.factors.push_back(
          {{"vision", Decimal::of(draw(0, 12), 1)}, {"language", Decimal::of(draw(1, 150), 2)}});
  if (draw.oneIn(10)) {
    p.varyRemat = false;
    for (const Layer &layer : p.layers)
      p.givenRemat.push_back(
          layer.remat[draw(0, static_cast<int64_t>(layer.remat.size()) - 1)].name);
  }
  return p;
}

TEST(Search, EqualsTheExhaustiveSolver) {
  int feasible = 0, infeasible = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    Problem problem = randomProblem(seed);
    std::optional<Plan> all = solveExhaustively(problem);
    SearchResult found = searchPlan(problem, {});
    ASSERT_EQ(found.plan.has_value(), all.has_value()) << "seed " << seed << found.problem;
    ++(all ? feasible : infeasible);
    if (!all) {
      EXPECT_FALSE(found.problem.empty()) << "seed " << seed;
      continue;
    }
    ASSERT_EQ(found.plan->stepNs, all->stepNs) << "seed " << seed;
    EXPECT_EQ(found.lowerBoundNs, all->stepNs) << "seed " << seed;
    EXPECT_TRUE(found.provedOptimal) << "seed " << seed;
  }
  EXPECT_GE(feasible, 500);
  EXPECT_GE(infeasible, 50);
}

TEST(Search, GivenCutsStay) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Problem problem = randomProblem(seed);
    problem.varyCuts = false;
    auto layers = static_cast<int64_t>(problem.layers.size());
    for (int64_t s = 0; s <= problem.cluster.stages; ++s)
      problem.givenCuts.push_back(s * layers / problem.cluster.stages);
    std::optional<Plan> all = solveExhaustively(problem);
    SearchResult found = searchPlan(problem, {});
    ASSERT_EQ(found.plan.has_value(), all.has_value()) << "seed " << seed << found.problem;
    if (!all)
      continue;
    EXPECT_EQ(found.plan->cuts, problem.givenCuts);
    EXPECT_EQ(found.plan->stepNs, all->stepNs) << "seed " << seed;
  }
}

/// Three layers of 100 bytes of parameters and 10 saved bytes each.
Problem threeLayers(int64_t stages, int64_t memory) {
  Problem p;
  for (int i = 0; i < 3; ++i) {
    Layer layer;
    layer.name = std::string("block.") + static_cast<char>('a' + i);
    layer.kind = "language";
    layer.forwardNs = layer.inputGradNs = 10;
    layer.paramBytes = 100;
    layer.remat = {{"keep", 10, 0, 5}, {"full", 2, 10, 12}};
    p.layers.push_back(layer);
    if (i > 0)
      p.edges.push_back({i - 1, i, 1, 1});
  }
  p.microbatches = 4;
  p.cluster.stages = stages;
  p.cluster.memoryBytes = {memory};
  p.cluster.link = {1, 1'000'000'000};
  return p;
}

TEST(Search, SaysWhatDoesNotFit) {
  // Rank 0 of 2 holds two micro-batches: 100 + 2 * 2 + 12 = 116 a layer at the least, or with two
  // layers 200 + 2 * 4 + 12 = 220; rank 1 holds one: 200 + 4 + 12 = 216 for two layers.
  EXPECT_TRUE(searchPlan(threeLayers(2, 216), {}).plan);
  std::string one = searchPlan(threeLayers(2, 200), {}).problem;
  EXPECT_NE(one.find("block.c does not fit rank 1 beside the layers from block.b"),
            std::string::npos)
      << one;
  EXPECT_NE(one.find("16 bytes are missing"), std::string::npos) << one;
  EXPECT_NE(one.find("16 bytes more on every rank, or 1 more stage"), std::string::npos) << one;
  // Alone on rank 0: 100 + 12 + 2 * 2, or kept 100 + 5 + 2 * 10. On rank 1 1 * 10 would do.
  std::string none = searchPlan(threeLayers(2, 100), {}).problem;
  EXPECT_NE(none.find("block.a fits no rank even alone, even with everything recomputed: on rank "
                      "0, where least is missing, 16 bytes are"),
            std::string::npos)
      << none;
  std::string stages = searchPlan(threeLayers(4, 1000), {}).problem;
  EXPECT_NE(stages.find("at most 3 stages"), std::string::npos) << stages;
}

TEST(Search, TheSameProblemGivesTheSamePlan) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SearchResult a = searchPlan(randomProblem(seed), {}), b = searchPlan(randomProblem(seed), {});
    ASSERT_EQ(a.plan.has_value(), b.plan.has_value());
    if (a.plan) {
      EXPECT_EQ(a.plan->cuts, b.plan->cuts);
      EXPECT_EQ(a.plan->remat, b.plan->remat);
    }
  }
}

} // namespace
