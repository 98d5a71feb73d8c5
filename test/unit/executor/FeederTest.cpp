// A rank's feeder reads its replica's samples only, and reads them before they are needed.
#include "runtime/executor/Feeder.h"
#include "test/unit/data/TestTar.h"
#include "test/unit/program/TinyProgram.h"
#include <future>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <thread>

namespace omnibal::rt {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr int64_t samples = 24, replicas = 2, microbatches = 2;

class FeederTest : public testing::Test {
protected:
  /// Sample i has i + 1 tokens; those of `broken` cannot be read.
  void open(const std::function<bool(int64_t)> &broken) {
    std::vector<std::pair<std::string, std::string>> members;
    for (int64_t i = 0; i < samples; ++i) {
      json sample = {{"input_ids", std::vector<int>(i % 5 + 1, 1)},
                     {"labels", std::vector<int>(i % 5 + 1, 1)}};
      members.push_back({"k" + std::to_string(i) + ".json", broken(i) ? "{" : sample.dump()});
    }
    test::writeFile(folder / "d.tar", test::makeTar(members));
    dataset = *Dataset::open({folder / "d.tar"});
  }
  /// Two samples a group, one after the other: group g holds 2 g and 2 g + 1.
  std::unique_ptr<Feeder> feeder(int32_t replica, Compose compose = nullptr) {
    Batches batches;
    batches.offsets.push_back(0);
    for (int64_t i = 0; i < samples; ++i) {
      batches.samples.push_back(i);
      if (i % 2 == 1)
        batches.offsets.push_back(i + 1);
    }
    FeederOptions options;
    options.microbatches = microbatches;
    options.dataParallel = replicas;
    options.replica = replica;
    options.pixels = false;
    options.lastStep = samples / 2 / replicas / microbatches + (compose ? 1 : 0);
    return std::make_unique<Feeder>(
        dataset, *Preprocess::parse("{}", ""), program,
        StepSource::create(std::move(batches), {microbatches, replicas}, std::move(compose)),
        options);
  }
  static bool isOf(int64_t sample, int64_t replica) { return sample / 2 % replicas == replica; }

  test::TemporaryFolder folder;
  std::shared_ptr<const Dataset> dataset;
  Program program = tinyProgram({1, microbatches, replicas, false});
};

TEST_F(FeederTest, OnlyTheReplicasOwnSamplesAreRead) {
  for (int32_t replica : {0, 1}) {
    open([&](int64_t i) { return !isOf(i, replica); });
    auto mine = feeder(replica);
    int64_t read = 0;
    for (int step = 0; step < 3; ++step) {
      for (int32_t m = 0; m < microbatches; ++m) {
        auto batch = mine->get(m);
        ASSERT_TRUE(batch) << batch.status().message();
        int64_t group = (step * microbatches + m) * replicas + replica;
        EXPECT_EQ((*batch)->tokens, 2 * group % 5 + 1 + (2 * group + 1) % 5 + 1);
        read += 2;
      }
      mine->nextStep();
    }
    EXPECT_EQ(mine->counters().samples, read);
    EXPECT_EQ(read, samples / replicas);
  }
}

TEST_F(FeederTest, TheNextStepsAreReadWhileOneRuns) {
  open([](int64_t) { return false; });
  auto mine = feeder(0);
  // Nothing is taken at all, and yet the samples of the steps ahead get read.
  auto begin = std::chrono::steady_clock::now();
  while (mine->counters().samples < samples / replicas &&
         std::chrono::steady_clock::now() - begin < 60s)
    std::this_thread::sleep_for(1ms);
  EXPECT_EQ(mine->counters().samples, samples / replicas);
}

TEST_F(FeederTest, AStepDoesNotWaitForTheNextEpochsComposition) {
  open([](int64_t) { return false; });
  std::promise<void> gate;
  auto opened = gate.get_future().share();
  auto mine = feeder(1, [&, opened](int64_t) -> Result<Batches> {
    opened.wait();
    Batches batches;
    batches.samples = {5, 7};
    batches.offsets = {0, 1, 2};
    return batches;
  });
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(mine->position().epoch, 0);
    for (int32_t m = 0; m < microbatches; ++m)
      ASSERT_TRUE(mine->get(m));
    mine->nextStep();
  }
  EXPECT_EQ(mine->position().epoch, 1);
  EXPECT_EQ(mine->position().firstStep, 3);
  gate.set_value();
  auto batch = mine->get(0);
  ASSERT_TRUE(batch) << batch.status().message();
  EXPECT_EQ((*batch)->tokens, 7 % 5 + 1);
  batch = mine->get(1); // the filled end of the epoch
  ASSERT_TRUE(batch);
  EXPECT_EQ((*batch)->tokens, 0);
}

} // namespace
} // namespace omnibal::rt
