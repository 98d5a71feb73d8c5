#include "runtime/training/session/RunOptions.h"
#include <gtest/gtest.h>

namespace omnibal::rt {
namespace {

using namespace std::chrono_literals;

TEST(RunOptions, CheckpointsEveryTenMinutesWhereNothingIsSaid) {
  const RunOptions options;
  EXPECT_FALSE(options.isCheckpointTime(0s));
  EXPECT_FALSE(options.isCheckpointTime(9min + 59s));
  EXPECT_TRUE(options.isCheckpointTime(10min));
  EXPECT_TRUE(options.isCheckpointTime(24h));
}

TEST(RunOptions, CheckpointsEverySoManyMinutes) {
  RunOptions options;
  options.checkpointMinutes = 0.5;
  EXPECT_FALSE(options.isCheckpointTime(29s));
  EXPECT_TRUE(options.isCheckpointTime(30s));
  options.checkpointMinutes = 0; // only at the end
  EXPECT_FALSE(options.isCheckpointTime(1000h));
}

TEST(RunOptions, StepsReplaceTimeBetweenCheckpoints) {
  RunOptions options;
  options.checkpointEvery = 5;
  EXPECT_FALSE(options.isCheckpointTime(1000h));
}

} // namespace
} // namespace omnibal::rt
