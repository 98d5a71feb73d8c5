// Epochs of unequal length, composed while others run, read by ranks that are not at the same step.
#include "runtime/batching/steps/StepSource.h"
#include <atomic>
#include <chrono>
#include <future>
#include <gtest/gtest.h>
#include <set>
#include <thread>

namespace omnibal::rt {
namespace {

using namespace std::chrono_literals;

/// Epoch e has 4 + e groups of one sample, number 100 * e + group.
EpochGroups epochOf(int64_t epoch) {
  Batches batches;
  batches.offsets.push_back(0);
  for (int64_t g = 0; g < 4 + epoch; ++g) {
    batches.samples.push_back(100 * epoch + g);
    batches.offsets.push_back(g + 1);
  }
  return batches;
}

int64_t only(Result<std::vector<int64_t>> samples) {
  EXPECT_TRUE(samples) << samples.status().message();
  return !samples ? -2 : samples->empty() ? -1 : samples->front();
}

TEST(StepSource, EpochsFollowEachOther) {
  // Two micro-batches, one replica: epochs of 2, 3, 3, 4 steps.
  auto source = StepSource::create(epochOf(0), {2, 1}, epochOf);
  EXPECT_EQ(source->steps(), 2);
  auto reader = source->reader(0, {}, 12);
  std::vector<int64_t> seen;
  std::vector<int64_t> epochs;
  std::set<uint64_t> checksums;
  for (int64_t step = 0; step < 12; ++step) {
    for (int64_t m : {0, 1})
      seen.push_back(only(reader->samples(step, m)));
    DataPosition position = reader->position(step);
    epochs.push_back(position.epoch);
    // A reader that starts in the middle sees the same.
    auto resumed = source->reader(0, position, 12);
    EXPECT_EQ(only(resumed->samples(step, 1)), seen.back());
    EXPECT_EQ(resumed->position(step).firstStep, position.firstStep);
    ASSERT_TRUE(reader->checksum(step));
    checksums.insert(*reader->checksum(step));
    EXPECT_EQ(*resumed->checksum(step), *reader->checksum(step));
  }
  EXPECT_EQ(seen,
            (std::vector<int64_t>{0,   1,   2,   3,   100, 101, 102, 103, 104, -1,  200, 201,
                                  202, 203, 204, 205, 300, 301, 302, 303, 304, 305, 306, -1}));
  EXPECT_EQ(epochs, (std::vector<int64_t>{0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3}));
  EXPECT_EQ(checksums.size(), 4u); // one an epoch
  EXPECT_EQ(*reader->checksum(4), *source->reader(0, {1, 2}, 12)->checksum(3));
  DataPosition past = reader->position(12);
  EXPECT_EQ(past.epoch, 4);
  EXPECT_EQ(past.firstStep, 12);
  EXPECT_EQ(reader->position(10).epoch, 3); // looking back
  EXPECT_EQ(reader->position(7).firstStep, 5);
}

TEST(StepSource, WithOtherMicrobatchesTheNextRowIsTheSame) {
  // Three steps of one micro-batch, then two micro-batches a step.
  auto source = StepSource::create(epochOf(0), {2, 1}, epochOf);
  auto reader = source->reader(0, {0, 3, 3}, 12);
  std::vector<int64_t> seen, epochs, rows;
  for (int64_t step = 3; step < 7; ++step) {
    for (int64_t m : {0, 1})
      seen.push_back(only(reader->samples(step, m)));
    const DataPosition position = reader->position(step);
    epochs.push_back(position.epoch);
    rows.push_back(position.firstRow);
    EXPECT_EQ(only(source->reader(0, position, 12)->samples(step, 0)), seen[seen.size() - 2]);
  }
  EXPECT_EQ(seen, (std::vector<int64_t>{3, -1, 100, 101, 102, 103, 104, -1}));
  EXPECT_EQ(epochs, (std::vector<int64_t>{0, 1, 1, 1}));
  EXPECT_EQ(rows, (std::vector<int64_t>{3, 0, 0, 0}));
  EXPECT_EQ(reader->position(3).firstRow, 3); // looking back
  // Behind the last row the next epoch begins at once.
  EXPECT_EQ(only(source->reader(0, {0, 3, 4}, 12)->samples(3, 0)), 100);
}

TEST(StepSource, WithoutAComposerTheListRepeats) {
  auto source = StepSource::create(epochOf(0), {1, 2});
  EXPECT_TRUE(source->repeats());
  auto reader = source->reader(1, {}, 5);
  for (int64_t step = 0; step < 5; ++step)
    EXPECT_EQ(only(reader->samples(step, 0)), step % 2 * 2 + 1);
  EXPECT_EQ(reader->position(4).epoch, 2);
  EXPECT_EQ(source->reader(1, {500, 1000}, 1002)->position(1001).firstStep, 1000);
}

TEST(StepSource, TheNextEpochIsComposedWhileThisOneRuns) {
  std::promise<void> gate;
  auto opened = gate.get_future().share();
  std::promise<std::thread::id> asked;
  auto source = StepSource::create(epochOf(0), {1, 1}, [&](int64_t epoch) -> Result<EpochGroups> {
    if (epoch == 1) {
      asked.set_value(std::this_thread::get_id());
      opened.wait();
    }
    return epochOf(epoch);
  });
  auto reader = source->reader(0, {}, 6);
  EXPECT_EQ(only(reader->samples(0, 0)), 0);
  // It is asked for at the first step already, on another thread ...
  auto thread = asked.get_future();
  ASSERT_EQ(thread.wait_for(60s), std::future_status::ready);
  EXPECT_NE(thread.get(), std::this_thread::get_id());
  // ... and no step of this epoch waits for it.
  for (int64_t step = 1; step < 4; ++step) {
    EXPECT_TRUE(reader->ready(step));
    EXPECT_EQ(only(reader->samples(step, 0)), step);
  }
  EXPECT_FALSE(reader->ready(4));
  EXPECT_EQ(reader->position(4).epoch, 1);
  gate.set_value();
  EXPECT_EQ(only(reader->samples(4, 0)), 100);
  EXPECT_TRUE(reader->ready(5));
}

TEST(StepSource, AnEpochIsComposedOnceForAllRanks) {
  std::mutex mutex;
  std::multiset<int64_t> calls;
  auto source = StepSource::create(epochOf(0), {1, 4}, [&](int64_t epoch) -> Result<EpochGroups> {
    std::lock_guard<std::mutex> lock(mutex);
    calls.insert(epoch);
    return epochOf(epoch);
  });
  // Epochs of 1, 2, 2, 2, 2, 3, ... steps; readers up to two steps apart.
  std::vector<std::unique_ptr<StepReader>> readers;
  for (int64_t r = 0; r < 4; ++r)
    readers.push_back(source->reader(r, {}, 12));
  for (int64_t step = 0; step < 14; ++step)
    for (int64_t r = 0; r < 4; ++r)
      if (int64_t at = step - (r + step) % 3; at >= 0 && at < 12)
        EXPECT_TRUE(readers[r]->samples(at, 0)) << at;
  EXPECT_EQ(calls, (std::multiset<int64_t>{1, 2, 3, 4, 5}));
}

TEST(StepSource, NothingIsComposedThatIsNotNeeded) {
  std::atomic<int> calls = 0;
  auto source = StepSource::create(epochOf(0), {1, 1}, [&](int64_t epoch) -> Result<EpochGroups> {
    ++calls;
    return epochOf(epoch);
  });
  {
    auto reader = source->reader(0, {}, 4);
    for (int64_t step = 0; step < 4; ++step)
      EXPECT_EQ(only(reader->samples(step, 0)), step);
  }
  EXPECT_EQ(calls, 0);
}

TEST(StepSource, AFailureComesUpWhereItsEpochIsNeeded) {
  auto source = StepSource::create(
      epochOf(0), {1, 1}, [](int64_t) -> Result<EpochGroups> { return invalid("no more"); });
  auto reader = source->reader(0, {}, 6);
  for (int64_t step = 0; step < 4; ++step)
    EXPECT_EQ(only(reader->samples(step, 0)), step);
  auto failed = reader->samples(4, 0);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.status().message(), "composing epoch 1 of the batches: no more");
}

} // namespace
} // namespace omnibal::rt
