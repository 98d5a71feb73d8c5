//===- StepProblemJsonTest.cpp - What step problems may hold -------------------------------===//
#include "runtime/planner/step/StepProblemJson.h"
#include "test/unit/runtime/planner/step/RandomStepProblem.h"
#include <gtest/gtest.h>

namespace omnibal::planner {
namespace {

/// A case of two chunks on two ranks or more, an edge between them and four micro-batches.
StepProblem twoChunks() {
  for (uint64_t seed = 0;; ++seed)
    if (StepProblem problem = randomStepCase(seed, {2, 4, 2, true, true}).problem;
        problem.edges.size() == 1 && problem.microbatches == 4)
      return problem;
}

std::string errorOf(const StepProblem &problem) {
  auto read = parseStepProblem(writeStepProblem(problem), "problem.json");
  return read ? "" : read.status().message();
}

TEST(StepProblemJson, BytesOfAllChunksTogetherAreBounded) {
  StepProblem problem = twoChunks();
  ASSERT_EQ(errorOf(problem), "");
  problem.mostParts = 64;
  problem.tilesCap = problem.tokensCap = 1 << 20;
  for (size_t c = 0; c < 2; ++c)
    problem.chunks[c].variants[0].blocks.clear();
  // 2^50 * 4 * 64 are 2^58 bytes; eleven of them are fewer than 2^62 in one chunk, not in both.
  for (int b = 0; b < 11; ++b)
    problem.chunks[0].variants[0].blocks.push_back({{int64_t{1} << 50, 0, 0}});
  EXPECT_EQ(errorOf(problem), "");
  problem.chunks[1].variants[0].blocks = problem.chunks[0].variants[0].blocks;
  EXPECT_EQ(errorOf(problem), "problem.json: the blocks of a step at the caps leave 62 bits");
}

TEST(StepProblemJson, TimesOfMessagesAreBounded) {
  StepProblem problem = twoChunks();
  problem.chunks[1].stage = 1 - problem.chunks[0].stage;
  problem.tilesCap = problem.tokensCap = 1 << 30;
  problem.link.bytesPerSecond = 1;
  problem.edges[0].gradBytes = {int64_t{1} << 50, int64_t{1} << 50, int64_t{1} << 50};
  EXPECT_EQ(errorOf(problem), "problem.json: the messages of a step at the caps leave 62 bits");
}

TEST(StepProblemJson, VariantsTimesPartsAreBounded) {
  StepProblem problem = twoChunks();
  problem.mostParts = 64;
  // 64 parts of 2^16 micro-batches are all that may be; there are two chunks.
  problem.microbatches = 1 << 16;
  EXPECT_NE(errorOf(problem).find("neither variants nor edges"), std::string::npos);
}

TEST(StepProblemJson, NoLimitOnAnyRankIsNoLimit) {
  StepProblem problem = twoChunks();
  problem.memoryBytes.assign(problem.stages, (int64_t{1} << 53) - 1);
  auto read = parseStepProblem(writeStepProblem(problem), "problem.json");
  ASSERT_TRUE(read) << read.status().message();
  EXPECT_TRUE(read->memoryBytes.empty());
}

} // namespace
} // namespace omnibal::planner
