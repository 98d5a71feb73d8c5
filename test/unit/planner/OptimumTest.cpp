// The simulator against optima found elsewhere (test/data/plan): over all cuts and all choices of
// options, the least simulated step must be exactly the published one. Memory is counted here a
// second time, independently of the simulator.
#include "passes/planner/ProblemJson.h"
#include "passes/planner/ScheduleRules.h"
#include "passes/planner/Simulator.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <limits>

using namespace omnibal::planner;

namespace {

const std::string folder = OMNIBAL_TEST_DATA "/plan/";
using Numbers = std::vector<int64_t>;

/// A choice of options for the layers of a chunk.
struct Choice {
  Numbers recompute, saved; ///< by micro-batch
  int64_t workspace = 0;
  std::vector<std::string> names;

  bool noWorse(const Choice &other) const {
    auto below = [](const Numbers &a, const Numbers &b) {
      return std::equal(a.begin(), a.end(), b.begin(), std::less_equal<>());
    };
    return workspace <= other.workspace && below(recompute, other.recompute) &&
           below(saved, other.saved);
  }
};

void keepBest(std::vector<Choice> &choices) {
  std::vector<Choice> best;
  for (Choice &candidate : choices) {
    auto better = [&](const Choice &c) { return c.noWorse(candidate); };
    if (std::any_of(best.begin(), best.end(), better))
      continue;
    std::erase_if(best, [&](const Choice &c) { return candidate.noWorse(c); });
    best.push_back(std::move(candidate));
  }
  choices = std::move(best);
}

class Exhaustive {
public:
  explicit Exhaustive(Problem given) : problem(std::move(given)) {
    actions = *scheduleActions(problem.schedule, problem.cluster.stages, problem.microbatches);
  }

  /// The least step, or -1 where no plan fits.
  int64_t run() {
    cutFrom({0});
    return best == std::numeric_limits<int64_t>::max() ? -1 : best;
  }

private:
  void cutFrom(Numbers cuts) {
    int64_t stages = problem.cluster.stages, layers = problem.layers.size();
    int64_t left = stages - static_cast<int64_t>(cuts.size());
    if (left == 0) {
      cuts.push_back(layers);
      return choose(cuts);
    }
    for (int64_t next = cuts.back() + 1; next <= layers - left; ++next) {
      Numbers longer = cuts;
      longer.push_back(next);
      cutFrom(longer);
    }
  }

  void choose(const Numbers &cuts) {
    Plan plan;
    plan.cuts = cuts;
    plan.remat.assign(problem.layers.size(), "keep");
    plan.actions = actions;
    std::vector<std::vector<Choice>> chunks;
    for (int64_t s = 0; s < problem.cluster.stages; ++s) {
      plan.chunkRank.push_back(s);
      chunks.push_back(choices(s, cuts[s], cuts[s + 1]));
    }
    descend(plan, chunks, 0);
  }

  /// Recomputing less never lengthens a step of given cuts, so "keep" for the rest bounds it.
  void descend(Plan &plan, const std::vector<std::vector<Choice>> &chunks, size_t chunk) {
    Timeline timeline = simulate(problem, plan);
    ASSERT_EQ(timeline.error, "");
    if (timeline.stepNs >= best)
      return;
    if (chunk == chunks.size()) {
      best = timeline.stepNs;
      for (const RankFigures &rank : timeline.ranks)
        EXPECT_LE(rank.peakBytes, rank.limitBytes);
      return;
    }
    for (const Choice &choice : chunks[chunk]) {
      std::copy(choice.names.begin(), choice.names.end(), plan.remat.begin() + plan.cuts[chunk]);
      descend(plan, chunks, chunk + 1);
    }
    std::fill_n(plan.remat.begin() + plan.cuts[chunk], plan.cuts[chunk + 1] - plan.cuts[chunk],
                "keep");
  }

  /// Those that fit the rank's memory and are not worse than another for every micro-batch.
  std::vector<Choice> choices(int64_t rank, int64_t begin, int64_t end) {
    Numbers none(problem.microbatches, 0);
    std::vector<Choice> list = {{none, none, 0, {}}};
    int64_t fixed = 0;
    for (int64_t l = begin; l < end; ++l) {
      const Layer &layer = problem.layers[l];
      fixed += layer.paramBytes;
      std::vector<Choice> longer;
      for (const Choice &choice : list)
        for (const RematOption &option : layer.remat) {
          Choice &added = longer.emplace_back(choice);
          for (int64_t m = 0; m < problem.microbatches; ++m) {
            added.recompute[m] += problem.factor(m, layer.kind).times(option.recomputeNs);
            added.saved[m] += problem.factor(m, layer.kind).times(option.savedBytes);
          }
          added.workspace = std::max(added.workspace, option.workspaceBytes);
          added.names.push_back(option.name);
        }
      keepBest(longer);
      list = std::move(longer);
    }
    const Numbers &limits = problem.cluster.memoryBytes;
    int64_t limit = limits[limits.size() == 1 ? 0 : rank];
    std::erase_if(list, [&](const Choice &choice) {
      int64_t held = 0, peak = 0;
      for (const Action &action : actions[rank]) {
        bool forward = action.kind == ActionKind::Forward;
        held += forward ? choice.saved[action.microbatch] : -choice.saved[action.microbatch];
        peak = std::max(peak, held);
      }
      return fixed + peak + choice.workspace > limit;
    });
    for (Choice &choice : list) {
      choice.saved.assign(problem.microbatches, 0);
      choice.workspace = 0;
    }
    keepBest(list);
    return list;
  }

  Problem problem;
  std::vector<std::vector<Action>> actions;
  int64_t best = std::numeric_limits<int64_t>::max();
};

class Optimum : public testing::TestWithParam<const char *> {};

TEST_P(Optimum, OfAllPlansIsThePublishedOne) {
  std::string name = std::string(GetParam()) + ".json";
  auto problem = readProblem(folder + name);
  ASSERT_TRUE(static_cast<bool>(problem)) << llvm::toString(problem.takeError());
  auto text = llvm::MemoryBuffer::getFile(folder + "expected.json");
  ASSERT_TRUE(static_cast<bool>(text));
  auto value = llvm::json::parse((*text)->getBuffer());
  ASSERT_TRUE(static_cast<bool>(value));
  const llvm::json::Object *entry = value->getAsObject()->getObject(name);
  ASSERT_TRUE(entry);
  int64_t expected = entry->getInteger("optimal_step_ns").value_or(-1);
  EXPECT_EQ(Exhaustive(*problem).run(), expected);
}

INSTANTIATE_TEST_SUITE_P(Problems, Optimum,
                         testing::Values("microbatch_factors_loose", "microbatch_factors_tight",
                                         "gpipe_tight", "frozen_vision_skip_tight_dp",
                                         "slow_link_dp_mixed_memory_tight",
                                         "infeasible_one_layer_too_big"),
                         [](const auto &info) { return std::string(info.param); });

} // namespace
