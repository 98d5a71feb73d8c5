//===- BenchLoads.h - Steps' loads from length lists ------------------------------------------===//
#ifndef TEST_BENCH_STEP_PLANS_BENCHLOADS_H
#define TEST_BENCH_STEP_PLANS_BENCHLOADS_H

#include "runtime/batching/Balance.h"
#include "runtime/planner/step/StepProblem.h"
#include <string>

namespace omnibal::bench {

constexpr int64_t replicas = 8, tokensCap = 8192;

/// Samples of a kind: "real" (the published lists), "mixed" (half of them replaced by text, the
/// lengths log-normal) or "skew" (documents of 0 to 24 tiles with long tails, synthetic).
rt::SampleLengths samplesOf(const std::string &kind, const std::string &lengths);

/// Steps of one replica each, of different replicas: by next-fit under the token cap alone, or
/// balanced over 8 replicas in tiles and tokens.
std::vector<planner::StepLoads> stepsOf(const rt::SampleLengths &samples, bool balanced,
                                        int64_t microbatches, size_t count);

} // namespace omnibal::bench
#endif // TEST_BENCH_STEP_PLANS_BENCHLOADS_H
