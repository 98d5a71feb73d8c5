// kill -9 at random moments while a run saves: what is on the disk afterwards is a complete
// checkpoint, no older than the last one that was reported as saved, and the next save works.
#include "test/unit/runtime/checkpoint/SaveCheckpoint.h"
#include "test/unit/runtime/data/TestTar.h"
#include <chrono>
#include <csignal>
#include <gtest/gtest.h>
#include <random>
#include <sys/wait.h>
#include <thread>

using namespace omnibal::rt;
using namespace omnibal::test;

namespace {

std::vector<float> valuesOf(int64_t step) {
  std::vector<float> values(40000);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = float(step) + float(i) / 8;
  return values;
}

Status saveStep(const std::string &folder, int64_t step) {
  auto values = valuesOf(step);
  CheckpointWriteOptions options;
  options.folder = folder;
  return saveCheckpoint(options, RunState{step, step, 1},
                        {{"weight/w", {200, 200}, values.data(), true}}, agreeAlone);
}

TEST(CheckpointKill, WhatIsLeftIsComplete) {
  TemporaryFolder folder;
  std::string where = folder / "c";
  ASSERT_TRUE(saveStep(where, 0));
  std::mt19937 random(20240607);
  int64_t start = 1;
  int killedInside = 0;
  for (int round = 0; round < 40; ++round) {
    int pipes[2];
    ASSERT_EQ(::pipe(pipes), 0);
    pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int64_t step = start;; ++step) {
        char begins = 'b', saved = 's';
        (void)!::write(pipes[1], &begins, 1);
        if (!saveStep(where, step))
          ::_exit(3);
        (void)!::write(pipes[1], &saved, 1);
      }
    }
    ::close(pipes[1]);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30000));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "saving failed in round " << round;
    int64_t begun = start - 1, saved = start - 1;
    char event;
    while (::read(pipes[0], &event, 1) == 1)
      ++(event == 'b' ? begun : saved);
    ::close(pipes[0]);
    killedInside += begun > saved;

    auto checkpoint = Checkpoint::open(where);
    ASSERT_TRUE(checkpoint) << checkpoint.status().message();
    int64_t step = checkpoint->state().step;
    EXPECT_GE(step, saved);
    EXPECT_LE(step, begun);
    std::vector<float> got(40000);
    ASSERT_TRUE(checkpoint->read({"weight/w", {200, 200}, got.data(), true}));
    EXPECT_EQ(got, valuesOf(step));
    start = step + 1;
  }
  EXPECT_GT(killedInside, 5) << "the kills never met a save; the test shows nothing";
}

} // namespace
