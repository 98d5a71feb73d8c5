//===- AheadTest.cpp - The host runs ahead of the fake device ---------------------------------===//
//
// Steps that are under way at the same time, recorded work, and how often the host waits.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/comm/threads/ThreadCommunicator.h"
#include "test/support/TemporaryFolder.h"
#include "test/unit/runtime/backends/cuda/MixedBackend.h"
#include "test/unit/runtime/executor/TinyRun.h"
#include "test/unit/runtime/program/TinyModes.h"
#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>
#include <thread>

namespace omnibal::rt::cuda {
namespace {

struct Outcome {
  std::vector<StepResult> steps;
  std::vector<std::vector<float>> parameters;
  int64_t waitsInStart = 0, waitsInFinish = 0;
  Status status;
};

class Ahead : public testing::Test {
protected:
  void SetUp() override {
    weights = writeTinyWeights(folder.path);
    options.update.rates = decayAndNone(0.05, 0.1);
    options.clip = 0.3; // small enough to bite
  }
  void TearDown() override { unsetenv("OMNIBAL_CUDA_GRAPHS"); }

  Status trainRank(const LoadedProgram &program, Communicator &communicator, int steps, int ahead,
                   Outcome &out) {
    OMNIBAL_ASSIGN_OR_RETURN(TensorFiles files, TensorFiles::open(weights));
    OMNIBAL_ASSIGN_OR_RETURN(auto executor,
                             Executor::prepare(program, communicator, {.backend = &kind}));
    OMNIBAL_RETURN_IF_ERROR(executor->initialize(files));
    const Program &p = program.program;
    for (int s = 0; s < steps; ++s) {
      {
        StepOptions step = options;
        step.step = s;
        step.mode = s % p.trainModes.size();
        const int shape = s / static_cast<int>(p.trainModes.size()) % shapes;
        TinySource source(tinyStepOf(shape, p, step.mode), p.dataParallel, executor->replica());
        int64_t before = fake::hostWaits();
        OMNIBAL_RETURN_IF_ERROR(executor->startStep(source, step));
        if (s > 1)
          out.waitsInStart += fake::hostWaits() - before;
      } // nothing of it is needed any more
      while (executor->stepsUnderWay() > (s + 1 < steps ? ahead : 0)) {
        int64_t before = fake::hostWaits();
        OMNIBAL_ASSIGN_OR_RETURN(StepResult result, executor->finishStep());
        out.waitsInFinish += fake::hostWaits() - before;
        if (!result.undefined.empty())
          return invalid(result.undefined);
        out.steps.push_back(result);
      }
    }
    for (const Parameter &q : executor->stageInfo().parameters)
      OMNIBAL_RETURN_IF_ERROR(executor->backend().read(
          executor->at(q.dataOffset), q.elements() * 4, [&](const std::byte *bytes) {
            auto *data = reinterpret_cast<const float *>(bytes);
            out.parameters.emplace_back(data, data + q.elements());
            return Status::ok();
          }));
    return Status::ok();
  }

  Outcome train(const TinyOptions &layout, int steps, int ahead) {
    return train(loadedTiny(layout), steps, ahead);
  }
  /// Steps of all train modes in turn. All ranks as threads; the outcome of rank 0 with everyone's
  /// parameters.
  Outcome train(const LoadedProgram &program, int steps, int ahead) {
    const int ranks = program.program.stages * program.program.dataParallel;
    auto communicators = createThreadCommunicators(ranks, std::chrono::seconds(60));
    std::vector<Outcome> outcomes(ranks);
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        outcomes[r].status = trainRank(program, *communicators[r], steps, ahead, outcomes[r]);
        if (!outcomes[r].status)
          communicators[r]->abort(outcomes[r].status);
      });
    for (std::thread &thread : threads)
      thread.join();
    Outcome all = outcomes[0];
    for (int r = 1; r < ranks; ++r) {
      all.parameters.insert(all.parameters.end(), outcomes[r].parameters.begin(),
                            outcomes[r].parameters.end());
      if (all.status.isOk() || all.status.code() == Code::Aborted)
        all.status = outcomes[r].status;
    }
    return all;
  }

  static void expectSame(const Outcome &a, const Outcome &b, const std::string &what) {
    ASSERT_TRUE(a.status) << what << a.status.message();
    ASSERT_TRUE(b.status) << what << b.status.message();
    ASSERT_EQ(a.steps.size(), b.steps.size()) << what;
    for (size_t s = 0; s < a.steps.size(); ++s) {
      EXPECT_EQ(a.steps[s].loss, b.steps[s].loss) << what << s;
      EXPECT_EQ(a.steps[s].gradientNorm, b.steps[s].gradientNorm) << what << s;
      EXPECT_EQ(a.steps[s].labelTokens, b.steps[s].labelTokens) << what << s;
    }
    EXPECT_EQ(a.parameters, b.parameters) << what;
  }

  int shapes = 1000; ///< different steps before they repeat
  MixedKind kind;
  omnibal::test::TemporaryFolder folder;
  std::string weights;
  StepOptions options;
};

int graphLaunches() {
  int count = 0;
  for (const std::string &call : fake::calls())
    count += call.find("launch graph") != std::string::npos;
  return count;
}

const TinyOptions layouts[] = {
    {1, 3, 1, false, false, 8}, {1, 2, 2, true}, {2, 4, 1, false, true, 8}, {2, 3, 2, true}};

TEST_F(Ahead, SeveralStepsUnderWayGiveTheBitsOfOneByOne) {
  uint64_t seed = 0;
  for (const TinyOptions &layout : layouts) {
    fake::reset(seed);
    Outcome one = train(layout, 6, 0);
    for (int ahead : {1, 2}) {
      fake::reset(++seed);
      expectSame(train(layout, 6, ahead), one, "ahead " + std::to_string(ahead) + ", step ");
      EXPECT_EQ(fake::mistakes(), std::vector<std::string>{});
      EXPECT_EQ(fake::liveAllocations(), 0);
    }
  }
}

TEST_F(Ahead, NothingIsWaitedForInAStep) {
  fake::reset();
  Outcome out = train({1, 4, 1, false, false, 8}, 8, 1);
  ASSERT_TRUE(out.status) << out.status.message();
  EXPECT_EQ(out.waitsInStart, 0);
  // The device does one thing whenever it is asked: a step's work is counted, not its waits.
  EXPECT_GT(out.waitsInFinish, 0);
  for (const StepResult &step : out.steps) {
    EXPECT_GE(step.idle, 0);
    EXPECT_LE(step.idle, 1);
    EXPECT_GT(step.stepSeconds, 0);
  }
}

TEST_F(Ahead, NothingRunsBeforeTheNumbersAreAskedFor) {
  fake::reset();
  LoadedProgram program = loadedTiny({1, 2, 1, false});
  auto communicators = createThreadCommunicators(1);
  auto executor = Executor::prepare(program, *communicators[0], {.backend = &kind});
  ASSERT_TRUE(executor && (*executor)->initialize(*TensorFiles::open(weights)));
  for (int s = 0; s < 2; ++s) {
    TinySource source(tinyStep(s, 2), 1, 0);
    Status status = (*executor)->startStep(source, options);
    ASSERT_TRUE(status) << status.message();
  }
  EXPECT_EQ((*executor)->stepsUnderWay(), 2);
  TinySource source(tinyStep(0, 2), 1, 0);
  Status status = (*executor)->run("evaluate", source, [](auto &&...) { return Status::ok(); });
  EXPECT_NE(status.message().find("under way"), std::string::npos);
  EXPECT_TRUE((*executor)->finishStep());
  EXPECT_TRUE((*executor)->finishStep());
  EXPECT_FALSE((*executor)->finishStep());
}

TEST_F(Ahead, AfterANumberThatIsNoneNothingIsUpdated) {
  options.update.rates = decayAndNone(INFINITY, 0.1); // the first update ruins the weights
  for (const TinyOptions &layout : layouts) {
    fake::reset(5);
    Outcome out = train(layout, 4, 1);
    EXPECT_EQ(out.status.code(), Code::InvalidArgument);
    EXPECT_NE(out.status.message().find("step 2: the loss of rank"), std::string::npos)
        << out.status.message();
    EXPECT_EQ(out.steps.size(), 1u);
    auto calls = fake::calls();
    EXPECT_EQ(fake::liveAllocations(), 0);
  }
}

TEST_F(Ahead, ACapturedGraphGivesTheSameBits) {
  shapes = 2; // so that work repeats
  uint64_t seed = 10;
  for (const TinyOptions &layout : layouts) {
    setenv("OMNIBAL_CUDA_GRAPHS", "0", 1);
    fake::reset(seed);
    Outcome plain = train(layout, 8, 1);
    EXPECT_EQ(fake::graphsMade(), 0);
    for (const char *most : {"1", "3", ""}) {
      setenv("OMNIBAL_CUDA_GRAPHS", most, 1);
      fake::reset(++seed);
      expectSame(train(layout, 8, 1), plain, "graphs " + std::string(most) + ", step ");
      EXPECT_GT(fake::graphsMade(), 0);
      EXPECT_EQ(fake::mistakes(), std::vector<std::string>{});
      EXPECT_EQ(fake::liveGraphs(), 0);
      EXPECT_EQ(fake::liveAllocations(), 0);
    }
  }
}

TEST_F(Ahead, WorkIsRecordedTheSecondTimeAndThenRepeated) {
  shapes = 1;
  fake::reset();
  Outcome out = train({1, 2, 1, false, false, 8}, 5, 0);
  ASSERT_TRUE(out.status) << out.status.message();
  int kernels = 0;
  for (const std::string &call : fake::calls())
    kernels += call.find("launch gemm") != std::string::npos;
  // Two micro-batches, forward, and backward of the head, which depends on the number of labels,
  // and of the embedding: recorded in the second step, launched in four.
  EXPECT_EQ(fake::graphsMade(), 2 * 3);
  EXPECT_EQ(graphLaunches(), 2 * 3 * 4);
  EXPECT_EQ(kernels, 2 * 2 * 3); // run in the first step, recorded in the second
}

/// A short mode with halves of backwards and a long one.
LoadedProgram twoModes(int32_t stages, int32_t replicas) {
  const TinyOptions modes[] = {
      {.stages = stages,
       .microbatches = 3,
       .dataParallel = replicas,
       .split = true,
       .rowBucket = 8,
       .tokensCap = 8},
      {.stages = stages, .microbatches = 2, .dataParallel = replicas, .rowBucket = 8}};
  LoadedProgram loaded;
  loaded.program = tinyModes(modes);
  return loaded;
}

TEST_F(Ahead, StepsOfOtherModesUnderWayGiveTheBitsOfOneByOne) {
  shapes = 2;
  uint64_t seed = 30;
  for (int32_t stages : {1, 2})
    for (int32_t replicas : {1, 2}) {
      const LoadedProgram program = twoModes(stages, replicas);
      setenv("OMNIBAL_CUDA_GRAPHS", "0", 1);
      fake::reset(seed);
      const Outcome one = train(program, 12, 0);
      unsetenv("OMNIBAL_CUDA_GRAPHS");
      for (int ahead : {1, 2}) {
        fake::reset(++seed);
        expectSame(train(program, 12, ahead), one, "ahead " + std::to_string(ahead) + ", step ");
        EXPECT_GT(fake::graphsMade(), 0);
        EXPECT_EQ(fake::mistakes(), std::vector<std::string>{});
        EXPECT_EQ(fake::liveAllocations(), 0);
      }
    }
}

/// A step of another mode costs nothing: each mode's work is recorded in its second step, and after
/// that nothing is recorded or allocated, whichever mode comes.
TEST_F(Ahead, EveryModeIsRecordedOnce) {
  shapes = 1;
  const LoadedProgram program = twoModes(1, 1);
  auto made = [&](int steps) {
    fake::reset();
    const Outcome out = train(program, steps, 1);
    EXPECT_TRUE(out.status) << out.status.message();
    EXPECT_EQ(out.waitsInStart, 0);
    return fake::graphsMade();
  };
  const int ofFour = made(4);
  EXPECT_GT(ofFour, 0);
  EXPECT_GT(ofFour, made(3));
  EXPECT_EQ(made(12), ofFour);
}

TEST_F(Ahead, AsManyGraphsAsAllowed) {
  shapes = 2;
  setenv("OMNIBAL_CUDA_GRAPHS", "2", 1);
  fake::reset();
  int most = 0;
  kind.afterLaunch = [&] { most = std::max(most, fake::liveGraphs()); };
  Outcome out = train({1, 3, 1, false, false, 8}, 8, 1);
  ASSERT_TRUE(out.status) << out.status.message();
  EXPECT_GT(fake::graphsMade(), 2);
  EXPECT_LE(most, 3); // one more while it takes another's place
}

TEST_F(Ahead, WhatCannotBeRecordedRunsAsItIs) {
  shapes = 1;
  setenv("OMNIBAL_CUDA_GRAPHS", "0", 1);
  fake::reset();
  const Outcome plain = train({1, 2, 1, false}, 5, 1);
  unsetenv("OMNIBAL_CUDA_GRAPHS");
  for (auto trouble : {Trouble::Waits, Trouble::Allocates}) {
    fake::reset(3);
    kind.trouble = trouble;
    expectSame(train({1, 2, 1, false}, 5, 1), plain, "trouble, step ");
    EXPECT_EQ(fake::mistakes(), std::vector<std::string>{});
    EXPECT_EQ(graphLaunches(), 2 * 2 * 4); // all but the loss
  }
  kind.trouble = Trouble::None;
  fake::Device device;
  device.graphsFail = true;
  fake::reset(4, device);
  expectSame(train({1, 2, 1, false}, 5, 1), plain, "no graphs, step ");
  EXPECT_EQ(fake::graphsMade(), 0);
}

} // namespace
} // namespace omnibal::rt::cuda
