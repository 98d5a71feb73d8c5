// Steps of several train modes: each has the bits that a program of its mode alone gives, and modes
// that differ in nothing are one mode.
#include "runtime/comm/threads/ThreadCommunicator.h"
#include "test/support/TemporaryFolder.h"
#include "test/unit/runtime/executor/TinyRun.h"
#include "test/unit/runtime/program/TinyModes.h"
#include <cstring>
#include <gtest/gtest.h>
#include <thread>

namespace omnibal::rt {
namespace {

struct ModeStep {
  size_t mode = 0;
  std::vector<TinyGroup> groups;
};

/// What one rank has after each step.
struct RankStates {
  Status status;
  std::vector<StepResult> results;
  std::vector<std::string> bytes; ///< of the persistent part, before the first step too
  std::vector<int64_t> updates;   ///< so far, before the first step too
};

std::string persistentBytes(Executor &executor) {
  return {reinterpret_cast<const char *>(executor.at(0)),
          static_cast<size_t>(executor.stageInfo().persistentBytes)};
}

/// With `ahead`, every step is started before the numbers of the one before it are asked for.
RankStates runSteps(const LoadedProgram &loaded, const std::string &weights,
                    Communicator &communicator, const std::vector<ModeStep> &steps, bool ahead) {
  RankStates states;
  states.status = [&]() -> Status {
    OMNIBAL_ASSIGN_OR_RETURN(TensorFiles files, TensorFiles::open(weights));
    OMNIBAL_ASSIGN_OR_RETURN(auto executor,
                             Executor::prepare(loaded, communicator, {.guarded = true}));
    OMNIBAL_RETURN_IF_ERROR(executor->initialize(files));
    auto note = [&] {
      states.bytes.push_back(persistentBytes(*executor));
      states.updates.push_back(executor->adamStep());
    };
    auto finish = [&]() -> Status {
      OMNIBAL_ASSIGN_OR_RETURN(StepResult result, executor->finishStep());
      states.results.push_back(result);
      return Status::ok();
    };
    note();
    for (size_t s = 0; s < steps.size(); ++s) {
      TinySource source(steps[s].groups, loaded.program.dataParallel, executor->replica());
      StepOptions options;
      options.step = static_cast<int64_t>(s);
      options.mode = steps[s].mode;
      OMNIBAL_RETURN_IF_ERROR(executor->startStep(source, options));
      note();
      if (!ahead || s > 0)
        OMNIBAL_RETURN_IF_ERROR(finish());
    }
    return ahead ? finish() : Status::ok();
  }();
  if (!states.status)
    communicator.abort(states.status);
  return states;
}

/// Runs each step by itself from the state that `whole` had before it.
Status compareSteps(const LoadedProgram &alone, const std::string &weights,
                    Communicator &communicator, const std::vector<ModeStep> &steps, size_t mode,
                    const RankStates &whole) {
  OMNIBAL_ASSIGN_OR_RETURN(TensorFiles files, TensorFiles::open(weights));
  OMNIBAL_ASSIGN_OR_RETURN(auto executor, Executor::prepare(alone, communicator, {}));
  OMNIBAL_RETURN_IF_ERROR(executor->initialize(files));
  for (size_t s = 0; s < steps.size(); ++s) {
    if (steps[s].mode != mode)
      continue;
    std::memcpy(executor->at(0), whole.bytes[s].data(), whole.bytes[s].size());
    executor->setAdamStep(whole.updates[s]);
    TinySource source(steps[s].groups, alone.program.dataParallel, executor->replica());
    StepOptions options;
    options.step = static_cast<int64_t>(s);
    OMNIBAL_ASSIGN_OR_RETURN(StepResult result, executor->trainStep(source, options));
    EXPECT_EQ(persistentBytes(*executor), whole.bytes[s + 1]) << "step " << s;
    EXPECT_EQ(executor->adamStep(), whole.updates[s + 1]) << "step " << s;
    EXPECT_EQ(result.loss, whole.results[s].loss) << "step " << s;
    EXPECT_EQ(result.gradientNorm, whole.results[s].gradientNorm) << "step " << s;
    EXPECT_EQ(result.tokens, whole.results[s].tokens) << "step " << s;
    EXPECT_EQ(result.flops, whole.results[s].flops) << "step " << s;
  }
  return Status::ok();
}

template <typename F> void onRanks(int ranks, const F &work) {
  auto communicators = createThreadCommunicators(ranks, std::chrono::seconds(60));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] { work(r, *communicators[r]); });
  for (std::thread &thread : threads)
    thread.join();
}

class TrainModesRun : public testing::Test {
protected:
  std::vector<RankStates> run(const LoadedProgram &loaded, const std::vector<ModeStep> &steps,
                              bool ahead = false) {
    const int ranks = loaded.program.stages * loaded.program.dataParallel;
    std::vector<RankStates> states(ranks);
    onRanks(ranks, [&](int r, Communicator &communicator) {
      states[r] = runSteps(loaded, weights, communicator, steps, ahead);
    });
    for (const RankStates &each : states)
      EXPECT_TRUE(each.status) << each.status.message();
    return states;
  }

  test::TemporaryFolder folder;
  std::string weights = writeTinyWeights(folder.path);
};

TEST_F(TrainModesRun, StepsHaveTheBitsOfTheirModeAlone) {
  for (int32_t stages : {1, 2})
    for (int32_t replicas : {1, 2, 4}) {
      SCOPED_TRACE(std::to_string(stages) + " stages, " + std::to_string(replicas) + " replicas");
      const TinyOptions options[] = {
          {.stages = stages,
           .microbatches = 3,
           .dataParallel = replicas,
           .tied = replicas == 2,
           .split = true,
           .tokensCap = 8},
          {.stages = stages, .microbatches = 2, .dataParallel = replicas, .tied = replicas == 2}};
      LoadedProgram both;
      both.program = tinyModes(options);
      std::vector<ModeStep> steps;
      for (size_t s = 0; s < 20; ++s)
        steps.push_back({s % 2, tinyStepOf(static_cast<uint32_t>(s), both.program, s % 2)});
      const std::vector<RankStates> whole = run(both, steps);
      if (HasFailure())
        return;
      for (size_t mode = 0; mode < 2; ++mode) {
        const LoadedProgram alone = loadedTiny(options[mode]);
        onRanks(stages * replicas, [&](int r, Communicator &communicator) {
          const Status status = compareSteps(alone, weights, communicator, steps, mode, whole[r]);
          EXPECT_TRUE(status) << status.message();
          if (!status)
            communicator.abort(status);
        });
      }
      const std::vector<RankStates> ahead = run(both, steps, true);
      for (size_t r = 0; r < whole.size(); ++r)
        EXPECT_EQ(ahead[r].bytes, whole[r].bytes) << "rank " << r;
    }
}

TEST_F(TrainModesRun, AgreeWithTheFormulas) {
  const TinyOptions options[] = {{.microbatches = 3, .split = true, .tokensCap = 8},
                                 {.microbatches = 2}};
  LoadedProgram both;
  both.program = tinyModes(options);
  std::vector<ModeStep> steps;
  for (size_t s = 0; s < 6; ++s)
    steps.push_back({s % 3 == 1 ? 1u : 0u, {}});
  TinyReference reference(weights, false);
  std::vector<TinyReference::Step> expected;
  for (size_t s = 0; s < steps.size(); ++s) {
    steps[s].groups = tinyStepOf(static_cast<uint32_t>(s), both.program, steps[s].mode);
    expected.push_back(reference.step(steps[s].groups, {}));
  }
  const RankStates states = run(both, steps)[0];
  ASSERT_EQ(states.results.size(), steps.size());
  for (size_t s = 0; s < steps.size(); ++s) {
    EXPECT_NEAR(states.results[s].loss, expected[s].loss, 1e-5 * (1 + expected[s].loss)) << s;
    EXPECT_NEAR(states.results[s].gradientNorm, expected[s].gradientNorm, 1e-5) << s;
  }
}

TEST_F(TrainModesRun, EqualModesAreOneMode) {
  const TinyOptions one{.stages = 2, .microbatches = 2, .dataParallel = 2};
  const TinyOptions twice[] = {one, one};
  const LoadedProgram single = loadedTiny(one);
  LoadedProgram both;
  both.program = tinyModes(twice);
  std::vector<ModeStep> plain, alternating;
  for (size_t s = 0; s < 6; ++s) {
    plain.push_back({0, tinyStepOf(static_cast<uint32_t>(s), single.program, 0)});
    alternating.push_back({s % 2, plain.back().groups});
  }
  const std::vector<RankStates> expected = run(single, plain), found = run(both, alternating);
  for (size_t r = 0; r < expected.size(); ++r)
    EXPECT_EQ(found[r].bytes, expected[r].bytes) << "rank " << r;
}

TEST_F(TrainModesRun, ThereIsNoSuchMode) {
  const LoadedProgram loaded = loadedTiny({});
  std::vector<RankStates> states(1);
  onRanks(1, [&](int, Communicator &communicator) {
    states[0] = runSteps(loaded, weights, communicator,
                         {{1, tinyStep(1, loaded.program.trainModes[0].microbatches)}}, false);
  });
  EXPECT_EQ(states[0].status.message(), "the program has no mode \"train.1\"");
}

} // namespace
} // namespace omnibal::rt
