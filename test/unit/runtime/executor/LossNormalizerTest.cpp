// What the sum of losses is divided by, against the formulas in double precision.
#include "runtime/comm/threads/ThreadCommunicator.h"
#include "test/support/TemporaryFolder.h"
#include "test/unit/runtime/executor/TinyRun.h"
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <thread>

namespace omnibal::rt {
namespace {

constexpr int trained = 5;

struct Layout {
  int32_t stages, replicas;
};

class LossNormalizers : public testing::TestWithParam<Layout> {
protected:
  TinyOptions options() const {
    return {.stages = GetParam().stages, .microbatches = 2, .dataParallel = GetParam().replicas};
  }
  std::vector<TinyGroup> groupsOf(int step) const {
    return tinyStep(static_cast<uint32_t>(step), 2 * GetParam().replicas);
  }
  /// Group g belongs to this replica.
  size_t replicaOf(size_t g) const { return g % static_cast<size_t>(GetParam().replicas); }

  struct Counts {
    double labels = 0, samples = 0;
    std::vector<double> samplesOf; ///< by replica
  };
  Counts countsOf(const std::vector<TinyGroup> &groups) const {
    Counts counts;
    counts.samplesOf.resize(static_cast<size_t>(GetParam().replicas));
    for (size_t g = 0; g < groups.size(); ++g)
      for (const auto &sample : groups[g]) {
        ++counts.samples;
        ++counts.samplesOf[replicaOf(g)];
        for (size_t t = 1; t < sample.size(); ++t)
          counts.labels += sample[t].second != -100;
      }
    return counts;
  }

  /// Trains with these options and compares every step with the reference's.
  void
  expectSteps(const StepOptions &how,
              const std::function<std::vector<double>(const std::vector<TinyGroup> &)> &weights) {
    const LoadedProgram loaded = loadedTiny(options());
    const TinyOutcome outcome = trainTinyThreads(loaded, file, trained, how);
    ASSERT_TRUE(outcome.status) << outcome.status.message();
    TinyReference reference(file, false);
    for (int s = 0; s < trained; ++s) {
      const std::vector<TinyGroup> groups = groupsOf(s);
      const TinyReference::Step expected = reference.step(groups, how, weights(groups));
      EXPECT_NEAR(outcome.steps[s].loss, expected.loss, 3e-6 * expected.loss) << s;
      EXPECT_NEAR(outcome.steps[s].gradientNorm, expected.gradientNorm,
                  3e-6 * expected.gradientNorm)
          << s;
    }
    for (size_t e = 0; e < reference.table().size(); ++e)
      EXPECT_NEAR(outcome.parameters[0][e], reference.table()[e], 2e-5) << e;
  }

  test::TemporaryFolder folder;
  std::string file = writeTinyWeights(folder.path);
};

TEST_P(LossNormalizers, AConstant) {
  StepOptions how;
  how.lossDivisor = 7.25;
  how.clip = 0.5;
  expectSteps(how, [](const std::vector<TinyGroup> &groups) {
    return std::vector<double>(groups.size(), 1 / 7.25);
  });
}

TEST_P(LossNormalizers, SamplesOfRanks) {
  StepOptions how;
  how.bySamples = true;
  how.clip = 0.5;
  bool differs = false;
  expectSteps(how, [&](const std::vector<TinyGroup> &groups) {
    const Counts counts = countsOf(groups);
    const double ofSample = counts.labels / counts.samples, replicas = GetParam().replicas;
    std::vector<double> weights;
    for (size_t g = 0; g < groups.size(); ++g) {
      const double own = counts.samplesOf[replicaOf(g)];
      weights.push_back(own > 0 ? 1 / (replicas * own * ofSample) : 0);
      differs |= own > 0 && std::abs(weights.back() * counts.labels - 1) > 0.01;
    }
    return weights;
  });
  EXPECT_EQ(differs, GetParam().replicas > 1); // else this says nothing
}

/// Whatever the divisor, a step without labels changes nothing.
TEST_P(LossNormalizers, NoLabelsNoUpdate) {
  const LoadedProgram loaded = loadedTiny(options());
  const int ranks = GetParam().stages * GetParam().replicas;
  auto communicators = createThreadCommunicators(ranks, std::chrono::seconds(60));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      const Status status = [&]() -> Status {
        OMNIBAL_ASSIGN_OR_RETURN(TensorFiles files, TensorFiles::open(file));
        OMNIBAL_ASSIGN_OR_RETURN(auto executor, Executor::prepare(loaded, *communicators[r], {}));
        OMNIBAL_RETURN_IF_ERROR(executor->initialize(files));
        const std::vector<TinyGroup> groups(2 * GetParam().replicas, TinyGroup{{{3, -100}}});
        TinySource source(groups, GetParam().replicas, executor->replica());
        StepOptions how;
        how.lossDivisor = 5;
        how.bySamples = true;
        OMNIBAL_ASSIGN_OR_RETURN(StepResult result, executor->trainStep(source, how));
        EXPECT_EQ(result.labelTokens, 0);
        EXPECT_EQ(result.gradientNorm, 0);
        EXPECT_EQ(executor->adamStep(), 0);
        return Status::ok();
      }();
      EXPECT_TRUE(status) << status.message();
      if (!status)
        communicators[r]->abort(status);
    });
  for (std::thread &thread : threads)
    thread.join();
}

INSTANTIATE_TEST_SUITE_P(Layouts, LossNormalizers,
                         testing::Values(Layout{1, 1}, Layout{2, 1}, Layout{1, 2}, Layout{2, 2}),
                         [](const auto &info) {
                           return std::to_string(info.param.stages) + "x" +
                                  std::to_string(info.param.replicas);
                         });

} // namespace
} // namespace omnibal::rt
