#include "runtime/training/Recordings.h"
#include "runtime/support/RecordSignal.h"
#include "test/support/TemporaryFolder.h"
#include <csignal>
#include <gtest/gtest.h>

namespace omnibal::rt {
namespace {

RunOptions tracing(int64_t steps) {
  RunOptions options;
  options.trace = "trace.json";
  options.traceSteps = steps;
  return options;
}

/// The steps that go to the file, of those before 20.
std::vector<int64_t> stepsIn(const Recordings &recordings, const std::string &file) {
  std::vector<int64_t> steps;
  for (int64_t step = 0; step < 20; ++step)
    if (const Recording *found = recordings.of(step); found && found->file == file)
      steps.push_back(step);
  return steps;
}

using Steps = std::vector<int64_t>;

TEST(Recordings, TheThirdStepOrTheLastOfFewer) {
  EXPECT_EQ(stepsIn({tracing(1), 0, 10}, "trace.json"), Steps{2});
  EXPECT_EQ(stepsIn({tracing(1), 0, 2}, "trace.json"), Steps{1});
  EXPECT_EQ(stepsIn({tracing(1), 0, 1}, "trace.json"), Steps{0});
  EXPECT_EQ(stepsIn({tracing(3), 0, 10}, "trace.json"), (Steps{2, 3, 4}));
  EXPECT_EQ(stepsIn({tracing(3), 0, 4}, "trace.json"), (Steps{1, 2, 3}));
  EXPECT_EQ(stepsIn({tracing(1), 7, 10}, "trace.json"), Steps{9}); // of a run that goes on
  EXPECT_EQ(Recordings(RunOptions(), 0, 10).of(2), nullptr);
}

TEST(Recordings, StepsThatAreNamedCountFromOne) {
  RunOptions options;
  options.profile = "traces";
  options.profileAt = {5, 1, 10};
  const Recordings recordings(options, 0, 10);
  EXPECT_EQ(stepsIn(recordings, "traces/step-00000001.json"), Steps{0});
  EXPECT_EQ(stepsIn(recordings, "traces/step-00000005.json"), Steps{4});
  EXPECT_EQ(stepsIn(recordings, "traces/step-00000010.json"), Steps{9});
  EXPECT_EQ(recordings.of(1), nullptr);
  const Recordings goneOn(options, 4, 10);
  EXPECT_EQ(goneOn.of(0), nullptr);
  EXPECT_NE(goneOn.of(4), nullptr);
}

TEST(Recordings, NoStepIsInTwo) {
  RunOptions options = tracing(3); // 2, 3, 4
  options.profile = "traces";
  options.profileAt = {3, 6};
  Recordings recordings(options, 0, 10);
  EXPECT_EQ(stepsIn(recordings, "trace.json"), (Steps{2, 3, 4}));
  EXPECT_EQ(stepsIn(recordings, "traces/step-00000006.json"), Steps{5});
  EXPECT_FALSE(recordings.add(4));
  EXPECT_FALSE(recordings.add(5));
  EXPECT_FALSE(recordings.add(10)); // there is none
  EXPECT_TRUE(recordings.add(9));
  EXPECT_EQ(stepsIn(recordings, "traces/step-00000010.json"), Steps{9});
}

TEST(Recordings, AFileAsksTheLeader) {
  test::TemporaryFolder folder;
  RunOptions options;
  options.profile = folder.path;
  const Recordings recordings(options, 0, 10);
  EXPECT_FALSE(recordings.takeRequest(0, true));
  test::writeFile(folder / "request", "");
  EXPECT_FALSE(recordings.takeRequest(1, false));
  EXPECT_TRUE(recordings.takeRequest(1, true));
  EXPECT_FALSE(recordings.takeRequest(2, true)); // it is gone
}

TEST(Recordings, WhatComesInSeveralStepsIsOneRequest) {
  test::TemporaryFolder folder;
  RunOptions options;
  options.profile = folder.path;
  Recordings recordings(options, 0, 20);
  EXPECT_TRUE(recordings.hear(0));
  EXPECT_FALSE(recordings.hear(1));
  EXPECT_FALSE(recordings.hear(2));
  test::writeFile(folder / "request", "");
  EXPECT_FALSE(recordings.takeRequest(1, true)); // it would be heard as the same one
  EXPECT_TRUE(recordings.takeRequest(2, true));
  EXPECT_TRUE(recordings.hear(3));
  EXPECT_FALSE(recordings.hear(20));
  EXPECT_NE(recordings.of(0), nullptr);
  EXPECT_EQ(recordings.of(1), nullptr);
  EXPECT_NE(recordings.of(3), nullptr);
}

TEST(Recordings, ASignalAsksItsProcess) {
  test::TemporaryFolder folder;
  RunOptions options;
  options.profile = folder.path;
  EXPECT_EXIT(
      {
        catchRecordSignal();
        Recordings recordings(options, 0, 10);
        const bool before = recordings.takeRequest(0, false);
        std::raise(SIGUSR2);
        const bool once = recordings.takeRequest(1, false);
        const bool twice = recordings.takeRequest(2, false);
        recordings.hear(3);
        std::raise(SIGUSR2); // as another rank of the launcher had it
        const bool again = recordings.takeRequest(9, false);
        std::_Exit(!before && once && !twice && !again ? 7 : 8);
      },
      testing::ExitedWithCode(7), "");
}

} // namespace
} // namespace omnibal::rt
