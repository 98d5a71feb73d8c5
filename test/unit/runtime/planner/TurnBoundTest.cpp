// The bound of stage by stage ways against all plans of small random problems.
#include "runtime/planner/search/bounds/TurnBound.h"
#include "runtime/planner/search/Exhaustive.h"
#include "runtime/planner/search/FixedSearch.h"
#include "test/unit/runtime/planner/RandomProblem.h"
#include <gtest/gtest.h>

namespace omnibal::planner {
namespace {

bool hasLoneSource(const PlanningModel &model, const std::vector<int64_t> &cuts) {
  for (size_t c = 0; c + 1 < cuts.size(); ++c) {
    bool lone = true;
    for (int64_t l = cuts[c]; l < cuts[c + 1]; ++l)
      lone &= model.isSource(l);
    if (lone)
      return true;
  }
  return false;
}

TEST(TurnBound, IsNeverAboveTheBestPlan) {
  int64_t compared = 0, split = 0, close = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Problem problem = seed % 2 ? randomProblem(seed) : randomChunkProblem(seed);
    if (seed % 4 == 1)
      problem.schedule = "zb-h1";
    PlanningModel model(problem);
    SearchControl control(1000);
    ActionOrder order(model, listsOf(model));
    std::unique_ptr<RematChoices> remat =
        makeRematChoices(model, control, order.lists().chunkStage, order.lists().actions);
    PathMixtureBound game(model, order, *remat, control);
    TurnBound turns(model, order, game, control);
    if (!game.usable() || !turns.usable())
      continue;
    std::optional<Plan> best = solveExhaustively(problem);
    if (!best || hasLoneSource(model, best->cuts))
      continue;
    int64_t bound = turns.raise(0, 2 * best->stepNs);
    EXPECT_LE(bound, best->stepNs) << "seed " << seed << " " << problem.schedule;
    ++compared;
    split += problem.schedule == "zb-h1" && problem.cluster.stages > 1;
    close += bound * 100 >= best->stepNs * 97;
  }
  RecordProperty("compared", compared);
  RecordProperty("split", split);
  RecordProperty("close", close);
  EXPECT_GT(compared, 500);
  EXPECT_GT(split, 200);
  // The bound would be of no use far below.
  EXPECT_GT(close, compared * 3 / 4);
}

} // namespace
} // namespace omnibal::planner
