//===- Ranks.h - Ranks as threads that agree, for tests ----------------------------------===//
#ifndef TEST_UNIT_RUNTIME_CHECKPOINT_RANKS_H
#define TEST_UNIT_RUNTIME_CHECKPOINT_RANKS_H

#include "runtime/comm/Agreement.h"
#include <barrier>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace omnibal::test {

/// Runs body(rank, agree) on `count` threads and returns what each returned.
inline std::vector<rt::Status>
runRanks(int count, const std::function<rt::Status(int, const rt::Agreement &)> &body) {
  std::barrier<> barrier(count);
  std::mutex mutex;
  rt::Status worst;
  rt::Agreement agree = [&](rt::Status mine) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (!mine && worst.isOk())
        worst = mine;
    }
    barrier.arrive_and_wait();
    rt::Status all = worst;
    barrier.arrive_and_wait();
    if (!all) { // the next round starts clean
      std::lock_guard<std::mutex> lock(mutex);
      worst = rt::Status();
    }
    barrier.arrive_and_wait();
    return all;
  };
  std::vector<rt::Status> results(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] { results[size_t(rank)] = body(rank, agree); });
  for (std::thread &thread : threads)
    thread.join();
  return results;
}

} // namespace omnibal::test
#endif // TEST_UNIT_RUNTIME_CHECKPOINT_RANKS_H
