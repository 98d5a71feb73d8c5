// Exhaustive solver and search against optima found elsewhere (test/data/plan), to the nanosecond.
#include "passes/planner/Exhaustive.h"
#include "passes/planner/ProblemJson.h"
#include "passes/planner/Search.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include <gtest/gtest.h>

using namespace omnibal::planner;

namespace {

const std::string folder = OMNIBAL_TEST_DATA "/plan/";
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
  std::optional<Plan> all = solveExhaustively(*problem);
  EXPECT_EQ(all ? all->stepNs : -1, expected);
  SearchResult found = searchPlan(*problem, {});
  EXPECT_EQ(found.plan ? found.plan->stepNs : -1, expected);
  EXPECT_EQ(found.provedOptimal, expected >= 0);
  EXPECT_EQ(found.problem.empty(), expected >= 0) << found.problem;
}

INSTANTIATE_TEST_SUITE_P(Problems, Optimum,
                         testing::Values("microbatch_factors_loose", "microbatch_factors_tight",
                                         "gpipe_tight", "frozen_vision_skip_tight_dp",
                                         "slow_link_dp_mixed_memory_tight",
                                         "infeasible_one_layer_too_big"),
                         [](const auto &info) { return std::string(info.param); });

} // namespace
