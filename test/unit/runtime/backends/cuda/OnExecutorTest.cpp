//===- OnExecutorTest.cpp - Whole training runs on the fake device ---------------------------===//
//
// The executor with the cuda backend's memory, queue, copies, marks and messages; the kernels are
// the host's, enqueued. So every number must have the host backend's bits, whatever order the
// device chose, unless some work is not ordered behind what it needs.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/backends/host/HostBackend.h"
#include "runtime/comm/threads/ThreadCommunicator.h"
#include "runtime/executor/Executor.h"
#include "runtime/program/Workspace.h"
#include "test/support/TemporaryFolder.h"
#include "test/unit/runtime/backends/cuda/MixedBackend.h"
#include "test/unit/runtime/executor/TinyRun.h"
#include <cstdlib>
#include <gtest/gtest.h>

namespace omnibal::rt::cuda {
namespace {

class OnExecutor : public testing::Test {
protected:
  void SetUp() override {
    weights = writeTinyWeights(folder.path);
    step.update.rates = decayAndNone(0.05, 0.1);
  }

  MixedKind kind;
  omnibal::test::TemporaryFolder folder;
  std::string weights;
  StepOptions step;
};

TEST_F(OnExecutor, TrainsWithTheHostsBits) {
  uint64_t seed = 0;
  for (TinyOptions options :
       {TinyOptions{1, 3, 1, false}, TinyOptions{1, 2, 2, true}, TinyOptions{2, 4, 1, false},
        TinyOptions{2, 3, 2, true}, TinyOptions{2, 4, 1, false, true},
        TinyOptions{1, 2, 2, true, false, 1, true}, TinyOptions{2, 3, 1, false, true, 1, true},
        TinyOptions{.dataParallel = 3, .zero = true},
        TinyOptions{
            .stages = 2, .dataParallel = 2, .tied = true, .inBFloat16 = true, .zero = true}}) {
    LoadedProgram program = loadedTiny(options);
    TinyOutcome host = trainTinyThreads(program, weights, 4, step);
    ASSERT_TRUE(host.status) << host.status.message();
    for (int round = 0; round < 3; ++round, ++seed) {
      fake::reset(seed);
      TinyOutcome device =
          trainTinyThreads(program, weights, 4, step, {.guarded = seed % 2 == 1, .backend = &kind});
      ASSERT_TRUE(device.status) << device.status.message();
      ASSERT_EQ(device.steps.size(), host.steps.size());
      for (size_t i = 0; i < host.steps.size(); ++i) {
        EXPECT_EQ(device.steps[i].loss, host.steps[i].loss) << seed << " step " << i;
        EXPECT_EQ(device.steps[i].gradientNorm, host.steps[i].gradientNorm) << seed;
        EXPECT_GE(device.steps[i].bubble, 0);
        EXPECT_LE(device.steps[i].bubble, 1);
      }
      EXPECT_EQ(device.parameters, host.parameters) << seed;
      EXPECT_EQ(device.read, host.read) << seed;
      EXPECT_EQ(fake::mistakes(), std::vector<std::string>{});
      EXPECT_EQ(fake::liveAllocations(), 0);
    }
  }
}

/// The same over the fake of NCCL, each rank on a device of its own.
TEST_F(OnExecutor, TrainsWithTheHostsBitsOverNccl) {
  setenv("OMNIBAL_CUDA_TRANSPORT", "nccl", 1);
  setenv("OMNIBAL_CUDA_LIBRARIES", OMNIBAL_FAKE_NCCL_FOLDER, 1);
  uint64_t seed = 0;
  for (TinyOptions options :
       {TinyOptions{1, 3, 1, false}, TinyOptions{1, 2, 2, true}, TinyOptions{2, 4, 1, false},
        TinyOptions{2, 3, 2, true}, TinyOptions{2, 4, 1, false, true},
        TinyOptions{.dataParallel = 3, .zero = true},
        TinyOptions{.stages = 2, .dataParallel = 2, .tied = true, .zero = true}}) {
    LoadedProgram program = loadedTiny(options);
    TinyOutcome host = trainTinyThreads(program, weights, 3, step);
    ASSERT_TRUE(host.status) << host.status.message();
    for (int round = 0; round < 2; ++round, ++seed) {
      fake::Device device;
      device.devices = 4;
      fake::reset(seed, device);
      TinyOutcome outcome = trainTinyThreads(program, weights, 3, step, {.backend = &kind});
      ASSERT_TRUE(outcome.status) << outcome.status.message();
      for (size_t i = 0; i < host.steps.size(); ++i) {
        EXPECT_EQ(outcome.steps[i].loss, host.steps[i].loss) << seed << " step " << i;
        EXPECT_EQ(outcome.steps[i].gradientNorm, host.steps[i].gradientNorm) << seed;
      }
      EXPECT_EQ(outcome.parameters, host.parameters) << seed;
      EXPECT_EQ(fake::mistakes(), std::vector<std::string>{});
      EXPECT_EQ(fake::liveAllocations(), 0);
    }
  }
  unsetenv("OMNIBAL_CUDA_TRANSPORT");
  unsetenv("OMNIBAL_CUDA_LIBRARIES");
}

TEST_F(OnExecutor, MemoryIsThePlannedArena) {
  fake::reset();
  LoadedProgram program = loadedTiny({1, 2, 1, false});
  TinyOutcome outcome = trainTinyThreads(program, weights, 2, step, {.backend = &kind});
  ASSERT_TRUE(outcome.status) << outcome.status.message();
  int64_t arena = program.program.stageList[0].arenaBytes;
  EXPECT_GE(fake::largestBytes(), arena);
  EXPECT_LE(fake::largestBytes(), arena + 16384); // the optimizer's lists, batch values under way
}

TEST_F(OnExecutor, WhatIsTakenBesideTheArenaWasPlanned) {
  for (bool narrow : {false, true}) {
    fake::reset();
    LoadedProgram program = loadedTiny({1, 2, 1, false, false, 1, narrow});
    program.program.target = "cuda";
    const Stage &stage = program.program.stageList[0];
    auto communicators = createThreadCommunicators(1);
    auto executor = *Executor::prepare(program, *communicators[0], {.backend = &kind});
    ASSERT_TRUE(executor->initialize(*TensorFiles::open(weights)));
    TinySource source(tinyStep(1, 2), 1, 0);
    ASSERT_TRUE(executor->trainStep(source, step));
    const auto taken = executor->backend().workspaceOf(),
               planned = workspaceOf(program.program, stage);
    EXPECT_EQ(taken.size(), 2u); // the kernels are the host's
    for (const WorkspaceUse &use : taken) {
      auto found = std::find_if(planned.begin(), planned.end(),
                                [&](const WorkspaceUse &p) { return p.what == use.what; });
      ASSERT_NE(found, planned.end()) << use.what;
      EXPECT_LE(use.bytes, found->bytes) << use.what;
    }
    EXPECT_LE(fake::largestBytes(), stage.arenaBytes + totalOf(taken) + 64); // and a step's sums
  }
}

TEST_F(OnExecutor, EvaluateGivesTheHostsResults) {
  LoadedProgram program = loadedTiny({1, 2, 1, true});
  auto evaluate = [&](BackendKind &backend) {
    std::vector<float> losses;
    std::vector<int32_t> predictions;
    auto communicators = createThreadCommunicators(1);
    auto executor =
        Executor::prepare(program, *communicators[0], {.guarded = true, .backend = &backend});
    EXPECT_TRUE(executor) << executor.status().message();
    EXPECT_TRUE((*executor)->initialize(*TensorFiles::open(weights)));
    TinySource source(tinyStep(1, 2), 1, 0);
    Trace trace(0, 0);
    (*executor)->setTrace(&trace);
    Status status = (*executor)->run(
        "evaluate", source,
        [&](int32_t, const BatchValue &value, const std::byte *data, const PackedMicrobatch &b) {
          if (value.name == "loss")
            losses.insert(losses.end(), reinterpret_cast<const float *>(data),
                          reinterpret_cast<const float *>(data) + b.tokens);
          else
            predictions.insert(predictions.end(), reinterpret_cast<const int32_t *>(data),
                               reinterpret_cast<const int32_t *>(data) + b.tokens);
          return Status::ok();
        });
    EXPECT_TRUE(status) << status.message();
    auto events = nlohmann::json::parse("[" + trace.take() + "]");
    int kernels = 0;
    for (const auto &event : events)
      if (event["ph"] == "X") {
        EXPECT_GE(double(event["dur"]), 0);
        kernels += event["args"].contains("label");
      }
    return std::make_tuple(losses, predictions, kernels);
  };
  auto expected = evaluate(hostBackendKind());
  EXPECT_FALSE(std::get<0>(expected).empty());
  for (uint64_t seed = 0; seed < 4; ++seed) {
    fake::reset(seed);
    EXPECT_EQ(evaluate(kind), expected);
    EXPECT_EQ(fake::mistakes(), std::vector<std::string>{});
  }
}

} // namespace
} // namespace omnibal::rt::cuda
