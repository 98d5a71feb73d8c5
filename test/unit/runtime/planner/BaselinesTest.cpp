// Baselines are valid plans that never beat the optimum, and cut as their rules say.
#include "runtime/planner/baselines/Baselines.h"
#include "runtime/planner/evaluate/Simulator.h"
#include "runtime/planner/evaluate/VerifyPlan.h"
#include "runtime/planner/search/Search.h"
#include "test/unit/runtime/planner/RandomProblem.h"
#include <cmath>
#include <gtest/gtest.h>
#include <map>

using namespace omnibal::planner;

namespace {

std::map<std::string, Baseline> byName(const Problem &problem) {
  std::map<std::string, Baseline> result;
  for (Baseline &baseline : baselines(problem))
    result[baseline.name] = std::move(baseline);
  return result;
}

TEST(Baselines, AreValidAndNeverBetter) {
  std::map<std::string, int> plans;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Problem problem = randomProblem(seed);
    SearchResult best = searchPlan(problem, {});
    for (const auto &[name, baseline] : byName(problem)) {
      ASSERT_EQ(baseline.plan.has_value(), baseline.problem.empty()) << name << ", seed " << seed;
      if (!baseline.plan)
        continue;
      ++plans[name];
      ASSERT_TRUE(best.plan) << name << ", seed " << seed;
      EXPECT_GE(baseline.plan->stepNs, best.plan->stepNs) << name << ", seed " << seed;
      PlanClaims claims{baseline.plan->stepNs, {}, {}, baseline.plan->stages};
      EXPECT_TRUE(verifyPlan(problem, *baseline.plan, claims).empty()) << name;
    }
  }
  for (const char *name : {"equal-layers", "equal-parameters", "vision-first", "profile-greedy",
                           "bmp", "adapipe", "megatron"})
    EXPECT_GE(plans[name], 30) << name;
}

using Cuts = std::vector<int64_t>;

/// Six vision layers of 1, six language layers of 3; backward twice that.
Problem twelveLayers(int64_t stages) {
  Problem p;
  for (int64_t i = 0; i < 12; ++i) {
    Layer layer;
    layer.name = "layer" + std::to_string(i);
    layer.kind = i < 6 ? "vision" : "language";
    layer.forwardNs = i < 6 ? 1000 : 3000;
    layer.inputGradNs = layer.weightGradNs = layer.forwardNs;
    layer.paramBytes = i == 11 ? 1000 : 10;
    layer.remat = {{"keep", 100, 0, 0}, {"full", 10, layer.forwardNs, 0}};
    p.layers.push_back(layer);
    if (i > 0)
      p.edges.push_back({i - 1, i, 1, 1});
  }
  p.microbatches = 8;
  p.cluster.stages = stages;
  p.cluster.link = {1, 1'000'000'000};
  return p;
}

TEST(Baselines, CutByTheirRules) {
  std::map<std::string, Baseline> all = byName(twelveLayers(4));
  EXPECT_EQ(all["equal-layers"].plan->cuts, (Cuts{0, 3, 6, 9, 12}));
  EXPECT_EQ(all["vision-first"].plan->cuts, (Cuts{0, 6, 8, 10, 12}));
  EXPECT_EQ(all["equal-parameters"].plan->cuts[3], 11); // the last layer alone
  // 24 time units: 6 a stage.
  for (const char *name : {"profile-greedy", "bmp", "adapipe"})
    EXPECT_EQ(all[name].plan->cuts, (Cuts{0, 6, 8, 10, 12})) << name;
}

TEST(Baselines, MegatronHasOneCountForAllStages) {
  // Stage 0 of 2 holds two micro-batches: 60 + 2 * 600 kept, 180 less for every layer recomputed.
  Problem problem = twelveLayers(2);
  problem.layers[11].paramBytes = 10;
  problem.cluster.memoryBytes = {60 + 2 * 600 - 3 * 180};
  Baseline megatron = byName(problem)["megatron"];
  ASSERT_TRUE(megatron.plan) << megatron.problem;
  std::vector<std::string> want(12, "keep");
  for (int64_t l : {0, 1, 2, 6, 7, 8})
    want[l] = "full";
  EXPECT_EQ(megatron.plan->remat, want);
}

/// Step of these cuts with the least recomputation that fits; none: no memory.
std::optional<int64_t> stepOf(const Problem &problem, const Cuts &cuts,
                              std::vector<std::string> remat = {}) {
  Plan plan;
  plan.cuts = cuts;
  plan.remat = std::move(remat);
  if (!completePlan(problem, plan).empty())
    return std::nullopt;
  Timeline timeline = simulate(problem, plan);
  for (const StageFigures &stage : timeline.stages)
    if (!problem.cluster.memoryBytes.empty() && stage.peakBytes > stage.limitBytes)
      return std::nullopt;
  return timeline.stepNs;
}

/// Larger than randomProblem, without factors.
Problem mediumProblem(uint64_t seed, int64_t layers, int64_t stages) {
  Problem problem;
  for (uint64_t part = 0; static_cast<int64_t>(problem.layers.size()) < layers; ++part) {
    Problem few = randomProblem(1000 * seed + part);
    for (const Layer &layer : few.layers)
      problem.layers.push_back(layer);
  }
  problem.layers.resize(layers);
  Draw draw(seed);
  for (int64_t l = 0; l < layers; ++l) {
    problem.layers[l].name = "layer" + std::to_string(l);
    problem.layers[l].forwardNs += draw(1, 1000); // so that measures differ
  }
  for (int64_t l = 0; l + 1 < layers; ++l) {
    int64_t bytes = draw(1, 100000);
    problem.edges.push_back({l, l + 1, bytes, bytes});
  }
  problem.edges.push_back({layers / 4, layers * 3 / 4, draw(1, 100000), 7});
  problem.cluster.stages = stages;
  problem.cluster.link = {3, 1'000'000'000};
  problem.microbatches = 2 * stages;
  return problem;
}

/// All cuts within 3 of a greedy split, listed one by one, ranked by sorting them.
std::optional<int64_t> bmpByBruteForce(const Problem &problem) {
  int64_t layers = static_cast<int64_t>(problem.layers.size()), stages = problem.cluster.stages;
  auto time = [&](int64_t begin, int64_t end) {
    int64_t sum = 0;
    for (int64_t l = begin; l < end; ++l)
      sum += problem.layers[l].forwardNs;
    return problem.microbatches * sum;
  };
  Cuts anchor = {0};
  for (int64_t s = 0; s + 1 < stages; ++s) {
    int64_t share = time(anchor.back(), layers) / (stages - s), end = anchor.back() + 1;
    while (end < layers - (stages - s - 1) && std::abs(time(anchor.back(), end + 1) - share) <
                                                  std::abs(time(anchor.back(), end) - share))
      ++end;
    anchor.push_back(end);
  }
  struct Candidate {
    double variance = 0, bytes = 0;
    size_t stages = 0;
    Cuts cuts;
  };
  std::vector<Candidate> all;
  Cuts moved(stages - 1, -3);
  for (bool more = true; more;) {
    Candidate c;
    c.cuts = {0};
    for (int64_t s = 1; s < stages; ++s)
      c.cuts.push_back(anchor[s] + moved[s - 1]);
    c.cuts.push_back(layers);
    bool ascends = true;
    for (int64_t s = 0; s < stages; ++s)
      ascends &= c.cuts[s] < c.cuts[s + 1];
    if (ascends) {
      double mean = static_cast<double>(time(0, layers)) / static_cast<double>(stages);
      for (int64_t s = 0; s < stages; ++s)
        c.variance += std::pow(static_cast<double>(time(c.cuts[s], c.cuts[s + 1])) - mean, 2);
      for (const Edge &edge : problem.edges)
        for (int64_t s = 1; s < stages; ++s)
          if (edge.from < c.cuts[s] && edge.to >= c.cuts[s]) {
            c.bytes += static_cast<double>(edge.bytes);
            break;
          }
      all.push_back(c);
    }
    size_t digit = 0;
    while (digit < moved.size() && ++moved[digit] > 3)
      moved[digit++] = -3;
    more = digit < moved.size();
  }
  std::optional<int64_t> best;
  auto timeFirst = [&](auto less) {
    std::stable_sort(all.begin(), all.end(), less);
    for (size_t i = 0; i < std::min<size_t>(15, all.size()); ++i)
      if (std::optional<int64_t> step = stepOf(problem, all[i].cuts))
        best = std::min(*step, best.value_or(*step));
    for (size_t i = 0; i < all.size(); ++i)
      all[i].stages += i;
  };
  timeFirst([](const Candidate &a, const Candidate &b) {
    return std::tie(a.variance, a.bytes) < std::tie(b.variance, b.bytes);
  });
  timeFirst([](const Candidate &a, const Candidate &b) {
    return std::tie(a.bytes, a.variance) < std::tie(b.bytes, b.variance);
  });
  timeFirst([](const Candidate &a, const Candidate &b) {
    return std::tie(a.stages, a.cuts) < std::tie(b.stages, b.cuts);
  });
  return best;
}

TEST(Baselines, BmpIsWhatListingAllCandidatesGives) {
  int found = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Problem problem = mediumProblem(seed, 12 + static_cast<int64_t>(seed % 9), 3 + seed % 3);
    Baseline ours = byName(problem)["bmp"];
    std::optional<int64_t> theirs = bmpByBruteForce(problem);
    ASSERT_EQ(ours.plan.has_value(), theirs.has_value()) << seed;
    if (theirs)
      EXPECT_EQ(ours.plan->stepNs, *theirs) << seed;
    found += theirs.has_value();
  }
  EXPECT_GE(found, 40);
}

TEST(Baselines, BmpMovesAllCutsWhereThereAreManyStages) {
  // Equal layers but for one in every five, and one cheap edge three layers behind each even cut.
  Problem problem = mediumProblem(1, 80, 16);
  for (int64_t l = 0; l < 80; ++l) {
    problem.layers[l] = problem.layers[0];
    problem.layers[l].forwardNs = 1000;
  }
  problem.edges.clear();
  for (int64_t l = 0; l + 1 < 80; ++l) {
    bool cheap = (l + 1) % 5 == 1;
    problem.edges.push_back({l, l + 1, cheap ? 1 : 50'000'000, cheap ? 1 : 50'000'000});
  }
  Baseline ours = byName(problem)["bmp"];
  ASSERT_TRUE(ours.plan) << ours.problem;
  for (int64_t s = 1; s < 16; ++s)
    EXPECT_EQ(ours.plan->cuts[s], 5 * s + 1) << s;
}

/// AdaPipe's program written as it reads, the knapsack by trying all options.
struct AdaPipeByRecursion {
  const Problem &problem;
  struct State {
    double warm = 0, end = 0, slowest = 0, total = 0, forward = 0, backward = 0;
    Cuts cuts;
  };

  std::optional<double> recompute(int64_t stage, int64_t begin, int64_t end) const {
    double best = -1;
    std::vector<size_t> option(end - begin, 0);
    for (bool more = true; more;) {
      int64_t saved = 0, params = 0, workspace = 0, again = 0;
      for (int64_t l = begin; l < end; ++l) {
        const RematOption &o = problem.layers[l].remat[option[l - begin]];
        saved += o.savedBytes;
        again += o.recomputeNs;
        workspace = std::max(workspace, o.workspaceBytes);
        params += problem.layers[l].paramBytes;
      }
      int64_t inFlight = std::min(problem.microbatches, problem.cluster.stages - stage);
      if (params + inFlight * saved + workspace <= problem.cluster.memoryBytes[0] &&
          (best < 0 || static_cast<double>(again) < best))
        best = static_cast<double>(again);
      size_t digit = 0;
      while (digit < option.size() &&
             ++option[digit] == problem.layers[begin + static_cast<int64_t>(digit)].remat.size())
        option[digit++] = 0;
      more = digit < option.size();
    }
    return best < 0 ? std::nullopt : std::optional(best);
  }

  std::optional<State> from(int64_t stage, int64_t begin) const {
    int64_t stages = problem.cluster.stages, layers = static_cast<int64_t>(problem.layers.size());
    if (stage == stages)
      return begin == layers ? std::optional(State{0, 0, 0, 0, 0, 0, {layers}}) : std::nullopt;
    std::optional<State> best;
    for (int64_t end = begin + 1; end <= layers; ++end) {
      std::optional<State> next = from(stage + 1, end);
      std::optional<double> again = next ? recompute(stage, begin, end) : std::nullopt;
      if (!again)
        continue;
      double f = 0, b = *again, p = static_cast<double>(stages - stage);
      for (int64_t l = begin; l < end; ++l) {
        f += static_cast<double>(problem.layers[l].forwardNs);
        b += static_cast<double>(problem.layers[l].inputGradNs + problem.layers[l].weightGradNs);
      }
      State s;
      s.forward = f;
      s.backward = b;
      s.warm = f + std::max(next->warm + next->backward, (p - 1) * f);
      s.end = b + std::max(next->end + next->forward, (p - 1) * b);
      s.slowest = std::max(next->slowest, f + b);
      s.total =
          s.warm + s.end + std::max(0.0, static_cast<double>(problem.microbatches) - p) * s.slowest;
      s.cuts = next->cuts;
      s.cuts.insert(s.cuts.begin(), begin);
      if (!best || s.total < best->total)
        best = s;
    }
    return best;
  }
};

TEST(Baselines, AdaPipeIsItsRecursion) {
  int found = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Problem problem = mediumProblem(seed, 7, 2 + seed % 3);
    problem.microbatches = 1 + static_cast<int64_t>(seed % 7);
    int64_t saved = 0, params = 0;
    for (const Layer &layer : problem.layers) {
      saved += layer.remat[0].savedBytes;
      params += layer.paramBytes;
    }
    problem.cluster.memoryBytes = {params + saved * static_cast<int64_t>(seed % 5 + 1) / 4};
    std::optional<AdaPipeByRecursion::State> theirs = AdaPipeByRecursion{problem}.from(0, 0);
    Baseline ours = byName(problem)["adapipe"];
    ASSERT_EQ(ours.plan.has_value(), theirs.has_value()) << seed << " " << ours.problem;
    if (theirs)
      EXPECT_EQ(ours.plan->cuts, theirs->cuts) << seed;
    found += theirs.has_value();
  }
  EXPECT_GE(found, 40);
}

TEST(Baselines, MegatronTakesTheFastestCountThatFits) {
  int found = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Problem problem = randomProblem(seed);
    if (!problem.varyRemat)
      continue;
    std::optional<int64_t> best;
    Cuts cuts = {0};
    auto layers = static_cast<int64_t>(problem.layers.size());
    for (int64_t s = 0, n = problem.cluster.stages; s < n; ++s)
      cuts.push_back(cuts.back() + layers / n + (s < layers % n));
    for (int64_t count = 0; count <= layers; ++count) {
      std::vector<std::string> remat;
      for (size_t s = 0; s + 1 < cuts.size(); ++s)
        for (int64_t l = cuts[s]; l < cuts[s + 1]; ++l)
          remat.push_back(l < cuts[s] + count ? problem.layers[l].remat.back().name : "keep");
      if (std::optional<int64_t> step = stepOf(problem, cuts, remat))
        best = std::min(*step, best.value_or(*step));
    }
    Baseline ours = byName(problem)["megatron"];
    ASSERT_EQ(ours.plan.has_value(), best.has_value()) << seed;
    if (best)
      EXPECT_EQ(ours.plan->stepNs, *best) << seed;
    found += best.has_value();
  }
  EXPECT_GE(found, 100);
}

TEST(Baselines, CutAsManyStagesAsChunks) {
  Problem problem = twelveLayers(2);
  problem.schedule = "interleaved:2";
  std::map<std::string, Baseline> all = byName(problem);
  EXPECT_EQ(all["equal-layers"].plan->cuts, (Cuts{0, 3, 6, 9, 12}));
  EXPECT_EQ(all["equal-layers"].plan->chunkStage, (Cuts{0, 1, 0, 1}));
  EXPECT_FALSE(all["adapipe"].plan);
  problem.schedule = "auto";
  EXPECT_EQ(byName(problem)["equal-layers"].plan->schedule, "1f1b");
}

} // namespace
