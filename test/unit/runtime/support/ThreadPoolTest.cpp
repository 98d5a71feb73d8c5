#include "runtime/support/ThreadPool.h"
#include "runtime/support/Beside.h"
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <gtest/gtest.h>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>

using namespace omnibal::rt;

TEST(Beside, WhatAThreadThrowsIsThrownToTheCaller) {
  std::atomic<int> begun = 0;
  workBeside(3, [&] { ++begun; });
  EXPECT_EQ(begun, 4);
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> ended = 0;
  EXPECT_THROW(workBeside(3,
                          [&] {
                            if (std::this_thread::get_id() != caller)
                              throw std::bad_alloc();
                            ++ended;
                          }),
               std::bad_alloc);
  EXPECT_EQ(ended, 1);
}

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t tasks : {0, 1, 2, 5, 1000}) {
      std::vector<std::atomic<int>> count(tasks);
      pool.parallelFor(tasks, [&](int64_t task, int worker) {
        ASSERT_GE(worker, 0);
        ASSERT_LT(worker, threads);
        ++count[task];
      });
      for (auto &c : count)
        EXPECT_EQ(c.load(), 1);
    }
  }
}

TEST(ThreadPool, ManyShortJobsSeeEachOthersWrites) {
  ThreadPool pool(3);
  std::vector<int64_t> values(8, 0);
  for (int round = 0; round < 5000; ++round)
    pool.parallelFor(8, [&](int64_t task, int) { values[task] = values[(task + 0) % 8] + task; });
  for (int64_t i = 0; i < 8; ++i)
    EXPECT_EQ(values[i], 5000 * i);
}

TEST(ThreadPool, WorkersShareUnevenTasks) {
  // A worker that waits in one task must not keep the others from the rest.
  constexpr int64_t tasks = 21;
  ThreadPool pool(2);
  std::mutex mutex;
  std::condition_variable changed;
  int64_t others = 0;
  pool.parallelFor(tasks, [&](int64_t task, int) {
    std::unique_lock<std::mutex> lock(mutex);
    if (task != 0) {
      ++others;
      changed.notify_one();
      return;
    }
    // It ends when all others have: none waits behind it.
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::minutes(1), [&] {
      return others == tasks - 1;
    })) << others;
  });
  EXPECT_EQ(others, tasks - 1);
}

TEST(ThreadPool, ScratchIsAlignedAndOwn) {
  ThreadPool pool(3, 1000);
  EXPECT_GE(pool.scratchBytes(), 1000u);
  for (int w = 0; w < 3; ++w) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pool.scratch(w)) % 64, 0u);
    for (int v = 0; v < w; ++v)
      EXPECT_NE(pool.scratch(w), pool.scratch(v));
  }
}

TEST(ThreadPool, PoolsOfSeveralRanksSideBySide) {
  // More compute threads than cores: pools sleep instead of spinning, and all make progress.
  std::vector<std::thread> ranks;
  std::atomic<int64_t> sum{0};
  for (int rank = 0; rank < 4; ++rank)
    ranks.emplace_back([&] {
      ThreadPool pool(4);
      for (int round = 0; round < 200; ++round)
        pool.parallelFor(16, [&](int64_t, int) { ++sum; });
    });
  for (std::thread &rank : ranks)
    rank.join();
  EXPECT_EQ(sum.load(), 4 * 200 * 16);
}

TEST(ThreadPool, AnExceptionOfATaskIsTheCallers) {
  for (int threads : {1, 4}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 20; ++round) {
      auto fails = [](int64_t task, int) {
        if (task % 50 == 17)
          throw std::runtime_error("task");
      };
      EXPECT_THROW(pool.parallelFor(200, fails), std::runtime_error);
      std::atomic<int> done = 0;
      pool.parallelFor(200, [&](int64_t, int) { ++done; });
      EXPECT_EQ(done, 200);
    }
  }
}
