// Exhaustive solver and search against optima found elsewhere (test/data/plan), to the nanosecond.
#include "runtime/planner/json/ProblemJson.h"
#include "runtime/planner/search/Exhaustive.h"
#include "runtime/planner/search/Search.h"
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace omnibal::planner;

namespace {

const std::string folder = OMNIBAL_TEST_DATA "/plan/";
class Optimum : public testing::TestWithParam<const char *> {};

TEST_P(Optimum, OfAllPlansIsThePublishedOne) {
  std::string name = std::string(GetParam()) + ".json";
  auto problem = readProblem(folder + name);
  ASSERT_TRUE(static_cast<bool>(problem)) << problem.status().message();
  std::ifstream file(folder + "expected.json");
  auto expectations = nlohmann::json::parse(file);
  ASSERT_TRUE(expectations.contains(name));
  const nlohmann::json &step = expectations[name]["optimal_step_ns"];
  int64_t expected = step.is_number_integer() ? step.get<int64_t>() : -1;
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
